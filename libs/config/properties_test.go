package config

import (
	"slices"
	"strings"
	"testing"
)

// TestProperties follows the text format of java.util.Properties.
func TestProperties(t *testing.T) {
	tests := []struct {
		name, text string
		want       []property
	}{
		{"separators", "a=1\nb:2\nc 3\nd = 4\ne\t:\t5", []property{{"a", "1", 1}, {"b", "2", 2}, {"c", "3", 3}, {"d", "4", 4}, {"e", "5", 5}}},
		{"comments and blank lines", "# x=1\n  ! y=2\n\n \t\n z=3", []property{{"z", "3", 5}}},
		{"continuation", "list=a,\\\n   b,\\\n   c\nnext=1", []property{{"list", "a,b,c", 1}, {"next", "1", 4}}},
		{"even backslashes do not continue", "a=x\\\\\nb=1", []property{{"a", `x\`, 1}, {"b", "1", 2}}},
		{"continuation at the end", `a=b\`, []property{{"a", "b", 1}}},
		{"escapes", `a\ b\=c=\t\n\u00e9\\\q`, []property{{"a b=c", "\t\né\\q", 1}}},
		{"surrogates", `a=\ud83d\ude00`, []property{{"a", "😀", 1}}},
		{"name alone", "a", []property{{"a", "", 1}}},
		{"value keeps its separators", "a==b:c", []property{{"a", "=b:c", 1}}},
		{"trailing blanks stay", "a=b ", []property{{"a", "b ", 1}}},
		{"line ends", "a=1\r\nb=2\rc=3", []property{{"a", "1", 1}, {"b", "2", 2}, {"c", "3", 3}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []property
			for p, err := range properties(test.text) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, p)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// FuzzProperties checks that every entry is told with a line that exists and
// that what is read can be written and read again.
func FuzzProperties(f *testing.F) {
	f.Add("a=1\nb : 2\\\n  3\n")
	f.Add(`k\u0041=\ud83d\ude00`)
	f.Add("=\\")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1
		for p, err := range properties(text) {
			if p.line < 1 || p.line > lines {
				t.Fatalf("line %d of %d", p.line, lines)
			}
			if err != nil {
				continue
			}
			again, err := parseProperty(escape(p.name) + "=" + escape(p.value))
			if err != nil || again.name != p.name || again.value != p.value {
				t.Fatalf("%q=%q reads again as %q=%q, %v", p.name, p.value, again.name, again.value, err)
			}
		}
	})
}

func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "=", `\=`, ":", `\:`, " ", `\ `, "\t", `\t`, "\f", `\f`, "\n", `\n`, "\r", `\r`).Replace(s)
}
