package javaregex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// translator rewrites an expression from its front.
type translator struct {
	in  string
	at  int
	out strings.Builder
	// quantified says that what was read last is a quantifier.
	quantified bool
}

var errBreaksOff = errors.New("it breaks off")

func (t *translator) run() (string, error) {
	for t.at < len(t.in) {
		c := t.in[t.at]
		wasQuantified := t.quantified
		t.quantified = false
		var err error
		switch {
		case c == '\\':
			err = t.escape()
		case c == '[':
			err = t.class()
		case c == '(':
			err = t.open()
		case c == '+' && wasQuantified:
			err = errors.New("possessive quantifiers are not supported")
		case c == '*', c == '+', c == '?', c == '{':
			t.quantifier(wasQuantified)
		default:
			t.out.WriteByte(c)
			t.at++
		}
		if err != nil {
			return "", err
		}
	}
	return t.out.String(), nil
}

// quantifier copies a quantifier. A question mark behind another one makes that reluctant, and is none itself.
func (t *translator) quantifier(behindOther bool) {
	begin := t.at
	if t.in[t.at] == '{' {
		if end := strings.IndexByte(t.in[t.at:], '}'); end >= 0 {
			t.at += end
		}
	}
	t.quantified = !behindOther
	t.at++
	t.out.WriteString(t.in[begin:t.at])
}

// open copies the beginning of a group.
func (t *translator) open() error {
	rest := t.in[t.at:]
	if !strings.HasPrefix(rest, "(?") {
		t.out.WriteByte('(')
		t.at++
		return nil
	}
	for _, look := range []string{"(?=", "(?!", "(?<=", "(?<!"} {
		if strings.HasPrefix(rest, look) {
			return fmt.Errorf("lookaround, %s…), is not supported", look)
		}
	}
	if strings.HasPrefix(rest, "(?>") {
		return errors.New("atomic groups, (?>…), are not supported")
	}
	end := strings.IndexAny(rest, ":)>")
	if end < 0 {
		return errBreaksOff
	}
	head := rest[:end+1]
	if head[2] != '<' {
		flags := head[2:end]
		if strings.ContainsAny(flags, "xU") {
			return fmt.Errorf("the flags x and U, of %s, are not supported", head)
		}
		if flags = strings.NewReplacer("u", "", "d", "").Replace(flags); flags == "" && head[end] == ')' {
			head = ""
		} else {
			head = "(?" + flags + head[end:]
		}
	}
	t.out.WriteString(head)
	t.at += end + 1
	return nil
}

const (
	horizontal = `\t \x{a0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}`
	vertical   = `\n\x{b}\f\r\x{85}\x{2028}\x{2029}`
	space      = `\t\n\x{b}\f\r `
)

// classes are what Java's escapes of character classes stand for inside of brackets.
var classes = map[byte]string{'d': `0-9`, 'w': `0-9A-Za-z_`, 's': space, 'h': horizontal, 'v': vertical}

// properties are Java's names of what Go has by other names, or not.
var properties = map[string]string{
	"Lower": `a-z`, "Upper": `A-Z`, "ASCII": `\x00-\x7f`, "Alpha": `A-Za-z`, "Digit": `0-9`, "Alnum": `0-9A-Za-z`, "Punct": `!-/:-@\[-` + "`" + `{-~`,
	"Graph": `!-~`, "Print": ` -~`, "Blank": ` \t`, "Cntrl": `\x00-\x1f\x7f`, "XDigit": `0-9A-Fa-f`, "Space": space,
	"IsAlphabetic": `\p{L}\p{Nl}`, "IsLetter": `\p{L}`, "IsDigit": `\p{Nd}`, "IsUppercase": `\p{Lu}`, "IsLowercase": `\p{Ll}`,
	"IsPunctuation": `\p{P}`, "IsControl": `\p{Cc}`, "IsWhite_Space": `\s\x{b}\x{85}\p{Z}`, "javaLowerCase": `\p{Ll}`, "javaUpperCase": `\p{Lu}`,
}

func (t *translator) escape() error {
	if t.at+1 == len(t.in) {
		return errBreaksOff
	}
	switch c := t.in[t.at+1]; {
	case strings.IndexByte("AzbB", c) >= 0:
		t.out.WriteString(t.in[t.at : t.at+2])
	case c == 'Z':
		t.out.WriteString(`\n?\z`)
	case c == 'R':
		t.out.WriteString(`(?:\r\n|[` + vertical + `])`)
	case c == 'Q':
		return t.quote()
	case c >= '1' && c <= '9', c == 'k':
		return errors.New("references back are not supported")
	case c == 'X', c == 'G':
		return fmt.Errorf(`\%c is not supported`, c)
	default:
		class, size, err := member(t.in[t.at:])
		if err != nil {
			return err
		}
		t.out.WriteString("[" + class + "]")
		t.at += size
		return nil
	}
	t.at += 2
	return nil
}

func (t *translator) quote() error {
	quoted, _, closed := strings.Cut(t.in[t.at+2:], `\E`)
	for _, r := range quoted {
		fmt.Fprintf(&t.out, `\x{%x}`, r)
	}
	t.at += 2 + len(quoted)
	if closed {
		t.at += 2
	}
	return nil
}

// member reads a character, escaped or not, as it stands inside of brackets, and tells its size.
func member(in string) (class string, size int, err error) {
	if in[0] != '\\' {
		r, size := utf8.DecodeRuneInString(in)
		return hex(r), size, nil
	}
	if len(in) < 2 {
		return "", 0, errBreaksOff
	}
	c := in[1]
	if class, ok := classes[c|0x20]; ok && (c >= 'a' || c >= 'A' && c <= 'Z') {
		if c < 'a' {
			class, err = negated(class)
		}
		return class, 2, err
	}
	if control, ok := map[byte]rune{'t': '\t', 'n': '\n', 'r': '\r', 'f': '\f', 'a': 7, 'e': 27}[c]; ok {
		return hex(control), 2, nil
	}
	switch {
	case c == 'p', c == 'P':
		return property(in)
	case c == 'x', c == 'u', c == '0':
		return number(in)
	case c == 'c':
		if len(in) < 3 {
			return "", 0, errBreaksOff
		}
		return hex(rune(in[2] ^ 64)), 3, nil
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '1' && c <= '9':
		return "", 0, fmt.Errorf(`\%c is not supported here`, c)
	}
	r, size := utf8.DecodeRuneInString(in[1:])
	return hex(r), 1 + size, nil
}

func hex(r rune) string { return fmt.Sprintf(`\x{%x}`, r) }

func property(in string) (string, int, error) {
	if len(in) < 3 {
		return "", 0, errBreaksOff
	}
	name, size := in[2:3], 3
	if name == "{" {
		end := strings.IndexByte(in, '}')
		if end < 0 {
			return "", 0, errBreaksOff
		}
		name, size = in[3:end], end+1
	}
	class, ok := properties[name]
	if !ok {
		for _, prefix := range []string{"Is", "script=", "sc=", "general_category=", "gc="} {
			name = strings.TrimPrefix(name, prefix)
		}
		class = `\p{` + name + `}`
	}
	var err error
	if in[1] == 'P' {
		class, err = negated(class)
	}
	return class, size, err
}

// number reads \xhh, \x{h…}, \uhhhh or \0 and up to three octal digits.
func number(in string) (string, int, error) {
	digits, base, size := "", 16, 0
	switch {
	case in[1] == 'u' && len(in) >= 6:
		digits, size = in[2:6], 6
	case in[1] == 'x' && strings.HasPrefix(in[2:], "{"):
		end := strings.IndexByte(in, '}')
		if end < 0 {
			return "", 0, errBreaksOff
		}
		digits, size = in[3:end], end+1
	case in[1] == 'x' && len(in) >= 4:
		digits, size = in[2:4], 4
	case in[1] == '0':
		for size = 2; size < min(5, len(in)) && in[size] >= '0' && in[size] <= '7'; size++ {
			digits += in[size : size+1]
		}
		base = 8
	}
	n, err := strconv.ParseUint(digits, base, 21)
	if err != nil {
		return "", 0, fmt.Errorf("%.8q is no character", in)
	}
	return hex(rune(n)), size, nil
}
