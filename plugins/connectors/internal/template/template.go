// Package template has texts with placeholders, as ${topic}, of which configurations make URLs and names.
package template

import (
	"fmt"
	"slices"
	"strings"
)

// Template is a text with placeholders. The zero Template is the empty text.
type Template struct {
	parts []part
}

type part struct {
	text        string // the name of a placeholder, or what is there as it is
	placeholder bool
}

// Parse takes a text apart. Each of its placeholders must be one of names, and must end; a dollar sign that no brace follows
// stands for itself.
func Parse(text string, names ...string) (Template, error) {
	var t Template
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "${")
		if before != "" {
			t.parts = append(t.parts, part{text: before})
		}
		if !found {
			break
		}
		name, behind, ended := strings.Cut(after, "}")
		switch {
		case !ended:
			return Template{}, fmt.Errorf("the placeholder ${%.40s has no end", after)
		case !slices.Contains(names, name):
			return Template{}, fmt.Errorf("${%.40s} is no placeholder here, of ${%s}", name, strings.Join(names, "}, ${"))
		}
		t.parts = append(t.parts, part{text: name, placeholder: true})
		rest = behind
	}
	return t, nil
}

// Has says whether a placeholder is among the text.
func (t Template) Has(name string) bool { return slices.Contains(t.parts, part{name, true}) }

// Fixed says whether the text has no placeholders.
func (t Template) Fixed() bool {
	return !slices.ContainsFunc(t.parts, func(p part) bool { return p.placeholder })
}

// Expand returns the text with what value says in the place of each placeholder. The error is the first one of value.
func (t Template) Expand(value func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		text := p.text
		if p.placeholder {
			var err error
			if text, err = value(p.text); err != nil {
				return "", fmt.Errorf("${%s}: %w", p.text, err)
			}
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
