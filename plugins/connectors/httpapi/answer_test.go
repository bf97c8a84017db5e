package httpapi

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// TestPointers has the examples of RFC 6901, and what leads nowhere.
func TestPointers(t *testing.T) {
	doc := `{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8, "null": null}`
	for text, want := range map[string]string{
		"": doc, "/foo": `["bar", "baz"]`, "/foo/0": `"bar"`, "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3", "/g|h": "4", `/i\j`: "5", `/k"l`: "6", "/ ": "7", "/m~0n": "8",
		"/null": "null", "/foo/2": "", "/foo/-": "", "/foo/01": "", "/foo/x": "", "/none": "", "/foo/0/x": "", "/null/x": "", "/foo/99999999999999999999": "",
	} {
		p, err := parsePointer(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.find([]byte(doc)); err != nil || string(got) != want || (got == nil) != (want == "") {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"foo", "/a~", "/~2"} {
		if _, err := parsePointer(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestLinks(t *testing.T) {
	for header, want := range map[string]string{
		`<a>; rel=next`: "a", `<a>; rel="next"`: "a", `<a>;rel="prev", <b>;rel="next"`: "b", `<a,b;c>; rel=next`: "a,b;c",
		`<a>; title="x, <c>; rel=next"; rel=prev`: "", `<a>; rel="first next"`: "a", `<a>; REL=Next`: "a", `<a>`: "", "": "", `<a; rel=next`: "", `<a>; rel`: "",
		`<a>; x; rel = next`: "a", `<a>; title="a\"b"; rel=next`: "a", `<a>; rel="next`: "a",
	} {
		if got := nextLink([]string{header}); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
	if got := nextLink([]string{"<a>; rel=prev", "<b>; rel=next"}); got != "b" {
		t.Errorf("the second header: %q", got)
	}
}

// FuzzLinks finds the link that comes last, whatever is before it, unless that has one itself.
func FuzzLinks(f *testing.F) {
	f.Add(`<a>; title="x, \"<c>"; rel="prev"`, "b")
	f.Fuzz(func(t *testing.T, before, target string) {
		if got := nextLink([]string{before}); got != "" && !strings.Contains(before, "<"+got+">") {
			t.Errorf("%q: %q", before, got)
		}
		target = url.QueryEscape(target)
		if strings.Count(before, `"`) == 0 && nextLink([]string{before}) == "" && !strings.Contains(before, "<") {
			if got := nextLink([]string{before + ", <" + target + ">; rel=next"}); got != target {
				t.Errorf("%q: %q, want %q", before, got, target)
			}
		}
	})
}

// FuzzAnswers finds that what was read is of the answer: records that are JSON and that have values, or an error.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"a":[{"b":1,"c":"x"},{"b":"2"}],"d":"next"}`), "/a", "/b", "/d")
	f.Add([]byte(`[1,2.5e3,null,"x",[true],{}]`), "", "/0", "")
	f.Fuzz(func(t *testing.T, body []byte, records, offset, cursor string) {
		r := reading{hasOffset: offset != "", hasKey: true, hasCursor: true, hasPage: true}
		for text, to := range map[string]*pointer{records: &r.records, offset: &r.offset, cursor: &r.cursor} {
			var err error
			if *to, err = parsePointer(text); err != nil {
				return
			}
		}
		r.key, r.page = r.offset, r.cursor
		p, err := r.read(body)
		if err != nil {
			return
		}
		r.values = valuesText
		texts, err := r.read(body)
		if err != nil || len(texts.records) != len(p.records) {
			t.Fatalf("%d records as values, %d as texts, %v", len(p.records), len(texts.records), err)
		}
		for i := range p.records {
			if err := p.records[i].value.Validate(); err != nil {
				t.Error(err)
			}
			if !json.Valid([]byte(texts.records[i].value.V.(string))) {
				t.Errorf("%q is no JSON", texts.records[i].value.V)
			}
			if r.hasOffset && p.records[i].offset == "" {
				t.Error("a record has no offset")
			}
		}
	})
}
