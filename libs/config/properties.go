package config

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
)

// property is one entry of a .properties file.
type property struct {
	name, value string
	line        int // of its first character, from 1
}

// properties yields the entries of a Java .properties text in order: comments
// with # or !, names ended by =, : or a blank, lines continued by a backslash,
// escapes \t \n \r \f \uXXXX. An entry with a broken escape comes with an error.
func properties(text string) iter.Seq2[property, error] {
	return func(yield func(property, error) bool) {
		lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
		for i := 0; i < len(lines); {
			first := i
			logical := strings.TrimLeft(lines[i], blanks)
			i++
			if logical == "" || logical[0] == '#' || logical[0] == '!' {
				continue
			}
			for continued(logical) {
				logical = logical[:len(logical)-1]
				if i == len(lines) {
					break
				}
				logical += strings.TrimLeft(lines[i], blanks)
				i++
			}
			p, err := parseProperty(logical)
			p.line = first + 1
			if !yield(p, err) {
				return
			}
		}
	}
}

const blanks = " \t\f"

// continued reports whether the line ends in an odd number of backslashes.
func continued(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

func parseProperty(logical string) (property, error) {
	end := 0
	for end < len(logical) && !strings.ContainsRune(blanks+"=:", rune(logical[end])) {
		if logical[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(logical))
	rest := strings.TrimLeft(logical[end:], blanks)
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], blanks)
	}
	name, err := unescape(logical[:end])
	if err != nil {
		return property{name: logical[:end]}, err
	}
	value, err := unescape(rest)
	return property{name: name, value: value}, err
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			r, n, err := unicodeEscape(s[i+1:])
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			i += n
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

// unicodeEscape decodes what follows `\u`, a surrogate pair being two escapes;
// it returns how many bytes it took.
func unicodeEscape(s string) (rune, int, error) {
	high, err := hex4(s)
	if err != nil {
		return 0, 0, err
	}
	if !utf16.IsSurrogate(high) || !strings.HasPrefix(s[4:], `\u`) {
		return high, 4, nil
	}
	low, err := hex4(s[6:])
	if err != nil {
		return 0, 0, err
	}
	return utf16.DecodeRune(high, low), 10, nil
}

func hex4(s string) (rune, error) {
	if len(s) < 4 {
		return 0, fmt.Errorf(`\u needs four hexadecimal digits`)
	}
	n, err := strconv.ParseUint(s[:4], 16, 16)
	if err != nil {
		return 0, fmt.Errorf(`\u needs four hexadecimal digits, not %q`, s[:4])
	}
	return rune(n), nil
}
