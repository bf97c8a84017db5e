// Package javaregex runs regular expressions and replacements that are written for Java, as Kafka's configurations have them, by
// Go's, which take time in proportion to the text and hence know neither lookaround nor references back, possessive quantifiers
// nor atomic groups: these are refused by name.
package javaregex

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Pattern is an expression of Java's.
type Pattern struct{ find, whole *regexp.Regexp }

// Compile translates an expression.
func Compile(expression string) (*Pattern, error) {
	t := translator{in: expression}
	translated, err := t.run()
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", expression, err)
	}
	find, err := regexp.Compile(translated)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", expression, err)
	}
	whole, err := regexp.Compile(`^(?:` + translated + `)$`)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", expression, err)
	}
	return &Pattern{find, whole}, nil
}

// Matches says whether the whole text matches, as Java's matches does.
func (p *Pattern) Matches(text string) bool { return p.whole.MatchString(text) }

// Whole is the expression in Go's syntax, for those that match whole texts by it themselves.
func (p *Pattern) Whole() string { return p.whole.String() }

// Replacement is what takes the place of a match: texts and references to groups of its pattern.
type Replacement struct {
	pattern *Pattern
	parts   []part
}

// part is a text, or the group of a number.
type part struct {
	text  string
	group int
}

// Replacement reads a replacement: $1 and ${name} are groups, a backslash takes the meaning of what follows it.
func (p *Pattern) Replacement(text string) (*Replacement, error) {
	r := &Replacement{pattern: p}
	literal := ""
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i++; i == len(text) {
				return nil, fmt.Errorf("replacement %q ends with a backslash", text)
			}
			literal += text[i : i+1]
		case '$':
			group, size, err := p.group(text[i+1:])
			if err != nil {
				return nil, fmt.Errorf("replacement %q: %w", text, err)
			}
			r.parts = append(r.parts, part{text: literal}, part{group: group + 1})
			literal, i = "", i+size
		default:
			literal += text[i : i+1]
		}
	}
	r.parts = append(r.parts, part{text: literal})
	return r, nil
}

// group reads the reference that follows a dollar, and tells its size. Of digits it takes as many as make a group there is.
func (p *Pattern) group(text string) (group, size int, err error) {
	if name, ok := strings.CutPrefix(text, "{"); ok {
		name, _, closed := strings.Cut(name, "}")
		group = p.find.SubexpIndex(name)
		if !closed || name == "" || group < 0 {
			return 0, 0, fmt.Errorf("there is no group named %q", name)
		}
		return group, len(name) + 2, nil
	}
	for size < len(text) && text[size] >= '0' && text[size] <= '9' {
		next, _ := strconv.Atoi(text[:size+1])
		if size > 0 && next > p.find.NumSubexp() {
			break
		}
		group = next
		size++
	}
	if size == 0 {
		return 0, 0, fmt.Errorf("a dollar is not followed by a group")
	}
	if group > p.find.NumSubexp() {
		return 0, 0, fmt.Errorf("there is no group %d", group)
	}
	return group, size, nil
}

// First replaces the first part of the text that matches, as Java's replaceFirst does.
func (r *Replacement) First(text string) string {
	at := r.pattern.find.FindStringSubmatchIndex(text)
	if at == nil {
		return text
	}
	var b strings.Builder
	b.WriteString(text[:at[0]])
	for _, p := range r.parts {
		b.WriteString(p.text)
		if group := p.group - 1; group >= 0 && at[2*group] >= 0 {
			b.WriteString(text[at[2*group]:at[2*group+1]])
		}
	}
	b.WriteString(text[at[1]:])
	return b.String()
}
