package clientconfig

import (
	"errors"
	"fmt"
	"strings"
)

// jaas reads the options of the one login module that sasl.jaas.config names, as Java does:
//
//	org.apache.kafka.common.security.plain.PlainLoginModule required username="ana" password='it"s';
//
// No error has a value in it: that would be the password.
func jaas(text string) (map[string]string, error) {
	s := scanner{rest: text}
	if module, quoted, err := s.next(); err != nil {
		return nil, err
	} else if module == "" || quoted {
		return nil, errors.New("it names no login module")
	}
	flag, _, err := s.next()
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(flag) {
	case "required", "requisite", "sufficient", "optional":
	default:
		return nil, errors.New("its login module is not followed by required, requisite, sufficient or optional")
	}
	options := map[string]string{}
	for {
		key, quoted, err := s.next()
		switch {
		case err != nil:
			return nil, err
		case key == ";" && !quoted:
			if more, _, err := s.next(); err != nil || more != "" {
				return nil, errors.New("it goes on after the semicolon, and may name one login module only")
			}
			return options, nil
		case key == "" && !quoted:
			return nil, errors.New("it does not end with a semicolon")
		case !isWord(key):
			return nil, errors.New("there is no key where one has to be")
		}
		if equals, _, err := s.next(); err != nil || equals != "=" {
			return nil, fmt.Errorf("key %s is not followed by =", key)
		}
		value, quoted, err := s.next()
		if err != nil {
			return nil, err
		}
		if !quoted && !isWord(value) {
			return nil, fmt.Errorf("key %s has no value", key)
		}
		options[key] = value
	}
}

// scanner takes a text apart into words, quoted ones and single signs.
type scanner struct{ rest string }

const spaces = " \t\r\n\f"

// next is the next of them, empty and not quoted at the end.
func (s *scanner) next() (token string, quoted bool, err error) {
	s.rest = strings.TrimLeft(s.rest, spaces)
	if s.rest == "" {
		return "", false, nil
	}
	if first := s.rest[0]; first == '"' || first == '\'' {
		token, err = s.quoted(first)
		return token, true, err
	}
	n := 0
	for n < len(s.rest) && isWordByte(s.rest[n]) {
		n++
	}
	token, s.rest = s.rest[:max(n, 1)], s.rest[max(n, 1):]
	return token, false, nil
}

// escapes are the signs after a backslash that stand for others.
var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'f': '\f', 'b': '\b', 'a': '\a', 'v': '\v'}

func (s *scanner) quoted(mark byte) (string, error) {
	var b strings.Builder
	for i := 1; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == mark:
			s.rest = s.rest[i+1:]
			return b.String(), nil
		case c == '\n' || c == '\r':
			return "", errors.New("a quoted value goes over more than one line")
		case c == '\\' && i+1 < len(s.rest):
			i++
			if sign, ok := escapes[s.rest[i]]; ok {
				b.WriteByte(sign)
			} else if octal, digits := leadingOctal(s.rest[i:]); digits > 0 {
				b.WriteRune(octal)
				i += digits - 1
			} else {
				b.WriteByte(s.rest[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("a quoted value has no end")
}

// leadingOctal is the sign whose number a text begins with in octal digits, up to \377, and how many they are.
func leadingOctal(text string) (sign rune, digits int) {
	most := 2
	if text[0] <= '3' {
		most = 3
	}
	for digits < min(most, len(text)) && text[digits] >= '0' && text[digits] <= '7' {
		sign = sign*8 + rune(text[digits]-'0')
		digits++
	}
	return sign, digits
}

func isWord(text string) bool { return text != "" && isWordByte(text[0]) }

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80 || strings.IndexByte("-_$.", c) >= 0
}
