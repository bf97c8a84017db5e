package javaregex

import (
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct{ expression, yes, no string }{
		{"a", "a", "ab"}, {"a|ab", "ab", "b"}, {`\d+`, "42", "٤٢"}, {`\w\W`, "a-", "aa"}, {`[^\W]+`, "ab", "a-"}, {`\s`, "\v", "x"}, {`\S`, "x", "\v"},
		{`\h\H`, " x", "xx"}, {`\v`, "\u2028", "x"}, {`a\Rb`, "a\r\nb", "ab"}, {`a\Z`, "a", "b"}, {`\Aa\z`, "a", "b"}, {`\Q.*\E.`, ".*x", "xx"}, {`\Qa`, "a", "b"},
		{`\p{Alpha}\P{Alpha}`, "a1", "aa"}, {`\p{IsAlphabetic}`, "é", "1"}, {`\p{L}\pN`, "é1", "11"}, {`\p{IsGreek}`, "α", "a"}, {`[\p{Lower}\d]+`, "a1", "A"},
		{`\p{Punct}+`, "!/:@[`{~", "a"}, {`\x41\u0042\0103\x{44}\cA\e`, "ABCD\x01\x1b", "x"}, {`[a-c&&[^b]]+`, "ac", "b"}, {`[a-z&&[def]&&[^e]]+`, "df", "e"}, {`[a[bc]]+`, "abc", "d"},
		{`[^a[bc]]`, "d", "b"}, {`[]a]`, "]", "b"}, {`[a-]`, "-", "b"}, {`[\]\-]+`, "]-", "a"}, {`[a&&b]`, "", "a"}, {"(?i)A", "a", "b"}, {"(?iu)A", "a", "b"}, {"(?u)a", "a", "A"},
		{"(?i:a)b", "Ab", "AB"}, {"(?<n>a)", "a", "b"}, {"a+?b", "aab", "b"}, {"a{2,3}", "aa", "a"}, {"a{2}?b", "aab", "b"}, {`\.\$\é`, ".$é", "a"}, {"[é-ü]", "ö", "e"}, {"a??", "a", "b"},
	} {
		p, err := Compile(c.expression)
		if err != nil {
			t.Error(err)
			continue
		}
		if c.yes != "" && !p.Matches(c.yes) {
			t.Errorf("%s (%s) does not match %q", c.expression, p.whole, c.yes)
		}
		if p.Matches(c.no) {
			t.Errorf("%s (%s) matches %q", c.expression, p.whole, c.no)
		}
	}
}

func TestRefuses(t *testing.T) {
	for expression, want := range map[string]string{
		"(": "missing", "[": "breaks off", "[a": "breaks off", "(?=a)": "lookaround", "(?!a)": "lookaround", "(?<=a)": "lookaround", "(?<!a)b": "lookaround", "(?>a)": "atomic",
		"(?x)a": "flags", `(a)\1`: "references back", `(?<n>a)\k<n>`: "references back", "a*+": "possessive", "a{2}+": "possessive", `\X`: "not supported", `\y`: "not supported",
		`\`: "breaks off", `\p{Nonsense}`: "Nonsense", `\p{L`: "breaks off", `\u12`: "no character", `[b-a]`: "range", "(?": "breaks off", `\c`: "breaks off", "*a": "missing", strings.Repeat("[", 100): "nested",
	} {
		if _, err := Compile(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %q", expression, err, want)
		}
	}
}

func TestReplacementRefuses(t *testing.T) {
	p, err := Compile("(?<n>a)(b)?")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"$", "$x", "$3", "${", "${}", "${m}", "${n", `\`} {
		if _, err := p.Replacement(text); err == nil {
			t.Errorf("%q is a replacement", text)
		}
	}
	r, err := p.Replacement(`<$1$2${n}\$$0$12>`)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.First("xay"); got != "x<aa$aa2>y" {
		t.Error(got)
	}
	if got := r.First("none"); got != "none" {
		t.Error(got)
	}
}

func FuzzCompile(f *testing.F) {
	for _, expression := range []string{`[a-z&&[^b]]+\d`, `(?<n>\p{Alpha}+)-\x41`, `\Qa.b\E|a{2,3}?`, `[^\W\]-]`} {
		f.Add(expression, "text")
	}
	f.Fuzz(func(t *testing.T, expression, text string) {
		p, err := Compile(expression)
		if err != nil {
			return
		}
		p.Matches(text)
		if r, err := p.Replacement(text); err == nil {
			r.First(text)
		}
	})
}
