package converter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// reader reads a JSON text (RFC 8259) from the front. Its methods pass over blanks first.
type reader struct {
	text []byte
	at   int
}

var errBroken = errors.New("the text breaks off")

// peek returns the next byte, 0 at the end.
func (r *reader) peek() byte {
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// end reports what is left but blanks.
func (r *reader) end() error {
	if c := r.peek(); r.at < len(r.text) {
		return fmt.Errorf("the text goes on behind its end: %q", c)
	}
	return nil
}

func (r *reader) take(c byte) bool {
	if r.peek() != c || r.at >= len(r.text) {
		return false
	}
	r.at++
	return true
}

func (r *reader) unexpected() error {
	if c := r.peek(); r.at < len(r.text) {
		return fmt.Errorf("%q is not expected", c)
	}
	return errBroken
}

// literal reads a word: true, false or null.
func (r *reader) literal(word string) error {
	if r.peek(); len(r.text)-r.at < len(word) || string(r.text[r.at:r.at+len(word)]) != word {
		return r.unexpected()
	}
	r.at += len(word)
	return nil
}

// null reads null, if that is next.
func (r *reader) null() (bool, error) {
	if r.peek() != 'n' {
		return false, nil
	}
	return true, r.literal("null")
}

// members reads an object. It calls member behind each name, to read the value.
func (r *reader) members(member func(name string) error) error {
	if !r.take('{') {
		return r.unexpected()
	}
	for first := true; !r.take('}'); first = false {
		if !first && !r.take(',') {
			return r.unexpected()
		}
		name, err := r.string()
		if err != nil {
			return err
		}
		if !r.take(':') {
			return r.unexpected()
		}
		if err := member(name); err != nil {
			return err
		}
	}
	return nil
}

// elements reads an array. It calls element for each, to read it.
func (r *reader) elements(element func() error) error {
	if !r.take('[') {
		return r.unexpected()
	}
	for first := true; !r.take(']'); first = false {
		if !first && !r.take(',') {
			return r.unexpected()
		}
		if err := element(); err != nil {
			return err
		}
	}
	return nil
}

// skip passes over a value, of which it reads no more than it takes to find its end.
func (r *reader) skip(depth int) error {
	if depth >= data.MaxDepth {
		return errDeep
	}
	switch r.peek() {
	case '{':
		return r.skipMembers(depth)
	case '[':
		return r.elements(func() error { return r.skip(depth + 1) })
	case '"':
		return r.skipString()
	case 't':
		return r.literal("true")
	case 'f':
		return r.literal("false")
	case 'n':
		return r.literal("null")
	}
	return r.skipNumber()
}

func (r *reader) skipMembers(depth int) error {
	r.at++
	for first := true; !r.take('}'); first = false {
		if !first && !r.take(',') {
			return r.unexpected()
		}
		if err := r.skipString(); err != nil {
			return err
		}
		if !r.take(':') {
			return r.unexpected()
		}
		if err := r.skip(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) skipString() error {
	if !r.take('"') {
		return r.unexpected()
	}
	for ; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '"':
			r.at++
			return nil
		case '\\':
			r.at++
		}
	}
	r.at = len(r.text)
	return errBroken
}

var errDeep = fmt.Errorf("the value is nested more than %d deep", data.MaxDepth)

// number reads a number, whose text it returns.
func (r *reader) number() (string, error) {
	r.peek()
	begin := r.at
	if err := r.skipNumber(); err != nil {
		return "", err
	}
	return string(r.text[begin:r.at]), nil
}

func (r *reader) skipNumber() error {
	r.next("-")
	ok := r.next("0") || r.digits()
	if ok && r.next(".") {
		ok = r.digits()
	}
	if ok && r.next("eE") {
		r.next("+-")
		ok = r.digits()
	}
	if !ok {
		return r.unexpected()
	}
	return nil
}

// next passes over one of some characters, if that is next.
func (r *reader) next(chars string) bool {
	if r.at == len(r.text) || strings.IndexByte(chars, r.text[r.at]) < 0 {
		return false
	}
	r.at++
	return true
}

// digits passes over digits, and says whether there was one.
func (r *reader) digits() bool {
	from := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	return r.at > from
}

func (r *reader) string() (string, error) {
	if !r.take('"') {
		return "", r.unexpected()
	}
	for i := r.at; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == '"':
			s := string(r.text[r.at:i])
			if !utf8.ValidString(s) {
				return "", fmt.Errorf("%.40q is not UTF-8", s)
			}
			r.at = i + 1
			return s, nil
		case c == '\\':
			return r.escaped(i)
		case c < ' ':
			r.at = i
			return "", fmt.Errorf("%q is in a string without a backslash", c)
		}
	}
	return "", errBroken
}

// escaped reads a string whose first backslash is at i.
func (r *reader) escaped(i int) (string, error) {
	b := append([]byte(nil), r.text[r.at:i]...)
	for r.at = i; r.at < len(r.text); {
		c := r.text[r.at]
		r.at++
		switch {
		case c == '"':
			if !utf8.Valid(b) {
				return "", fmt.Errorf("%.40q is not UTF-8", b)
			}
			return string(b), nil
		case c < ' ':
			return "", fmt.Errorf("%q is in a string without a backslash", c)
		case c != '\\':
			b = append(b, c)
		default:
			var err error
			if b, err = r.escape(b); err != nil {
				return "", err
			}
		}
	}
	return "", errBroken
}

var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape reads what is behind a backslash.
func (r *reader) escape(b []byte) ([]byte, error) {
	if r.at >= len(r.text) {
		return nil, errBroken
	}
	c := r.text[r.at]
	r.at++
	if plain, ok := escapes[c]; ok {
		return append(b, plain), nil
	}
	if c != 'u' {
		return nil, fmt.Errorf("%q is behind a backslash", c)
	}
	unit, err := r.unit()
	if err != nil {
		return nil, err
	}
	if utf16.IsSurrogate(unit) && r.at+1 < len(r.text) && r.text[r.at] == '\\' && r.text[r.at+1] == 'u' {
		before := r.at
		r.at += 2
		second, err := r.unit()
		if err != nil {
			return nil, err
		}
		if pair := utf16.DecodeRune(unit, second); pair != utf8.RuneError {
			return utf8.AppendRune(b, pair), nil
		}
		r.at = before
	}
	return utf8.AppendRune(b, unit), nil // half of a pair becomes U+FFFD
}

func (r *reader) unit() (rune, error) {
	if r.at+4 > len(r.text) {
		return 0, errBroken
	}
	n, err := strconv.ParseUint(string(r.text[r.at:r.at+4]), 16, 16)
	if err != nil {
		return 0, fmt.Errorf("%q are no four hexadecimal digits", r.text[r.at:r.at+4])
	}
	r.at += 4
	return rune(n), nil
}
