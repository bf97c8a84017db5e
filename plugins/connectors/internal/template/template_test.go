package template

import (
	"errors"
	"strings"
	"testing"
)

func TestTemplates(t *testing.T) {
	tests := []struct{ text, want, fault string }{
		{"", "", ""},
		{"plain", "plain", ""},
		{"${topic}", "<topic>", ""},
		{"a/${topic}/${key}?${topic}", "a/<topic>/<key>?<topic>", ""},
		{"5$ and $$ and {key}", "5$ and $$ and {key}", ""},
		{"${key", "", "has no end"},
		{"${}", "", "no placeholder"},
		{"${Topic}", "", "${topic}, ${key}"},
		{"${to${key}}", "", "no placeholder"},
	}
	for _, test := range tests {
		parsed, err := Parse(test.text, "topic", "key")
		if test.fault != "" {
			if err == nil || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%q: %v", test.text, err)
			}
			continue
		}
		got, expanded := parsed.Expand(func(name string) (string, error) { return "<" + name + ">", nil })
		if err != nil || expanded != nil || got != test.want {
			t.Errorf("%q: %q, %v, %v", test.text, got, err, expanded)
		}
		if parsed.Has("key") != strings.Contains(test.text, "${key}") || parsed.Fixed() != !strings.Contains(test.text, "${") {
			t.Errorf("%q: has %t, fixed %t", test.text, parsed.Has("key"), parsed.Fixed())
		}
	}
	parsed, err := Parse("${key}", "key")
	if err != nil {
		t.Fatal(err)
	}
	missing := errors.New("there is none")
	if _, err := parsed.Expand(func(string) (string, error) { return "", missing }); !errors.Is(err, missing) {
		t.Error(err)
	}
}

// FuzzParse finds that what is between placeholders comes out as it went in.
func FuzzParse(f *testing.F) {
	f.Add("a/${topic}/${key}?x=${key}")
	f.Add("$${key}}")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text, "topic", "key")
		if err != nil {
			return
		}
		got, err := parsed.Expand(func(name string) (string, error) { return "${" + name + "}", nil })
		if err != nil || got != text {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	})
}
