package javaregex

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// set is the characters of a class: ranges from and to, in order and apart.
type set [][2]rune

// parse returns the characters of what stands between brackets in Go's expressions.
func parse(class string) (set, error) {
	re, err := syntax.Parse("["+class+"]", syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("[%s]: %w", class, err)
	}
	var s set
	switch re.Op {
	case syntax.OpLiteral:
		s = set{{re.Rune[0], re.Rune[0]}}
	case syntax.OpAnyChar:
		s = set{{0, unicode.MaxRune}}
	case syntax.OpAnyCharNotNL:
		s = set{{0, '\n' - 1}, {'\n' + 1, unicode.MaxRune}}
	default:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			s = append(s, [2]rune{re.Rune[i], re.Rune[i+1]})
		}
	}
	return s.ordered(), nil
}

func (s set) ordered() set {
	slices.SortFunc(s, func(a, b [2]rune) int { return int(a[0] - b[0]) })
	var out set
	for _, r := range s {
		if n := len(out); n > 0 && r[0] <= out[n-1][1]+1 {
			out[n-1][1] = max(out[n-1][1], r[1])
			continue
		}
		out = append(out, r)
	}
	return out
}

func (s set) not() set {
	var out set
	next := rune(0)
	for _, r := range s {
		if r[0] > next {
			out = append(out, [2]rune{next, r[0] - 1})
		}
		next = r[1] + 1
	}
	if next <= unicode.MaxRune {
		out = append(out, [2]rune{next, unicode.MaxRune})
	}
	return out
}

func (s set) and(o set) set { return append(s.not(), o.not()...).ordered().not() }

// String returns what stands between brackets, or all that no character is.
func (s set) String() string {
	if len(s) == 0 {
		return `^\x{0}-\x{10ffff}`
	}
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\x{%x}-\x{%x}`, r[0], r[1])
	}
	return b.String()
}

func negated(class string) (string, error) {
	s, err := parse(class)
	return s.not().String(), err
}

// class rewrites a class in brackets, with what Go lacks: classes within classes and intersections.
func (t *translator) class() error {
	s, size, err := readClass(t.in[t.at:], 0)
	if err != nil {
		return err
	}
	t.out.WriteString("[" + s.String() + "]")
	t.at += size
	return nil
}

// maxClassDepth bounds how deep classes are within classes.
const maxClassDepth = 20

// readClass reads a class, from its bracket on, and tells its size.
func readClass(in string, depth int) (set, int, error) {
	if depth > maxClassDepth {
		return nil, 0, fmt.Errorf("classes are nested more than %d deep", maxClassDepth)
	}
	at := 1
	not := strings.HasPrefix(in[at:], "^")
	if not {
		at++
	}
	// all is the intersection of what stood before the last &&.
	var union, all set
	intersected := false
	for first := true; ; first = false {
		if at >= len(in) {
			return nil, 0, errBreaksOff
		}
		if in[at] == ']' && !first {
			break
		}
		if strings.HasPrefix(in[at:], "&&") {
			if !intersected {
				all = set{{0, unicode.MaxRune}}
			}
			all, union, intersected = all.and(union.ordered()), nil, true
			at += 2
			continue
		}
		s, size, err := readMember(in[at:], depth)
		if err != nil {
			return nil, 0, err
		}
		union = append(union, s...)
		at += size
	}
	if union = union.ordered(); intersected {
		union = all.and(union)
	}
	if not {
		union = union.not()
	}
	return union, at + 1, nil
}

// readMember reads a class within, a range or a character.
func readMember(in string, depth int) (set, int, error) {
	if in[0] == '[' {
		return readClass(in, depth+1)
	}
	from, size, err := member(in)
	if err != nil {
		return nil, 0, err
	}
	if rest := in[size:]; len(rest) >= 2 && rest[0] == '-' && rest[1] != ']' && rest[1] != '[' {
		to, more, err := member(rest[1:])
		if err != nil {
			return nil, 0, err
		}
		from, size = from+"-"+to, size+1+more
	}
	s, err := parse(from)
	return s, size, err
}
