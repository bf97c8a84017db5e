package config

import (
	"maps"
	"strings"
	"testing"
)

func TestParseProperties(t *testing.T) {
	got, err := ParseProperties("# a comment\na=1\nb : two \\\n  more\nc\\=d = \\u00e9\na=2\n")
	if want := map[string]string{"a": "2", "b": "two more", "c=d": "é"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	entries, err := ParseEntries("\na=1\nb=x\\\n  y\na=2\n")
	if want := map[string]Entry{"a": {"2", 5}, "b": {"xy", 3}}; err != nil || !maps.Equal(entries, want) {
		t.Errorf("%v, %v", entries, err)
	}
	if _, err := ParseProperties("a=1\nb=\\u00g"); err == nil || !strings.Contains(err.Error(), "line 2: b") {
		t.Error(err)
	}
}
