package format

import (
	"fmt"
	"strconv"
)

// Unescape replaces \n, \r, \t, \0, \\ and \xHH, so that separators can be written on a command line.
func Unescape(s string) (string, error) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		b, size, err := unescape(s, i)
		if err != nil {
			return "", err
		}
		out = append(out, b)
		i += size
	}
	return string(out), nil
}

// unescape returns the byte that s holds at i and how many bytes of s it takes.
func unescape(s string, i int) (b byte, size int, err error) {
	if s[i] != '\\' {
		return s[i], 1, nil
	}
	if i+1 == len(s) {
		return 0, 0, fmt.Errorf("%q ends in a single backslash", s)
	}
	switch s[i+1] {
	case 'n':
		return '\n', 2, nil
	case 'r':
		return '\r', 2, nil
	case 't':
		return '\t', 2, nil
	case '0':
		return 0, 2, nil
	case '\\':
		return '\\', 2, nil
	case 'x':
		if len(s) >= i+4 {
			if n, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				return byte(n), 4, nil
			}
		}
		return 0, 0, fmt.Errorf("%q: \\x needs two hexadecimal digits", s)
	}
	return 0, 0, fmt.Errorf("%q: unknown escape \\%c", s, s[i+1])
}
