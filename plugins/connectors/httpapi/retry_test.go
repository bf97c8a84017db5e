package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestStatuses(t *testing.T) {
	all, err := parseStatuses([]string{"408", "5xx", "420-422", "450-"})
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]bool{200: false, 407: false, 408: true, 419: false, 420: true, 422: true, 423: false, 450: true, 503: true, 599: true} {
		if all.has(status) != want {
			t.Errorf("%d: %t", status, !want)
		}
	}
	for _, text := range []string{"", "x", "99", "600", "6xx", "xx", "500-400", "-500", "5xxx", "500-x"} {
		if _, err := parseStatuses([]string{text}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-7": 0, "soon": 0, "9000000000000000000": time.Hour,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Fri, 02 Jan 2026 03:00:00 GMT": 0, "Fri, 02 Jan 2099 03:00:00 GMT": time.Hour,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// FuzzTarget finds that a URL stays one of the same host, with as many parts, whatever takes the place of placeholders.
func FuzzTarget(f *testing.F) {
	f.Add("http://h/a/${key}/b?x=${key}", "../x?y#z%00")
	f.Add("https://h:1/${key}", "..")
	f.Fuzz(func(t *testing.T, text, key string) {
		to, err := parseTarget(text, keyName)
		if err != nil {
			return
		}
		expand := func(value string) (*url.URL, error) {
			full, err := to.expand(func(string) (string, error) { return value, nil })
			if err != nil {
				return nil, err
			}
			return url.Parse(full)
		}
		plain, err := expand("x")
		if err != nil {
			t.Fatal(err)
		}
		got, err := expand(key)
		if err != nil {
			if key == "" || key == "." || key == ".." {
				return
			}
			t.Fatalf("%q with %q: %v", text, key, err)
		}
		if got.Scheme != plain.Scheme || got.Host != plain.Host || got.Fragment != plain.Fragment || strings.Count(got.EscapedPath(), "/") != strings.Count(plain.EscapedPath(), "/") || strings.Count(got.RawQuery, "&") != strings.Count(plain.RawQuery, "&") {
			t.Errorf("%q with %q: %s", text, key, got)
		}
	})
}
