package ident

import (
	"slices"
	"testing"
)

func TestParseName(t *testing.T) {
	for text, want := range map[string]Name{
		`users`:             {"users"},
		`public.users`:      {"public", "users"},
		`db.public.users`:   {"db", "public", "users"},
		`"a.b".c`:           {"a.b", "c"},
		`"quo""ted"."x"`:    {`quo"ted`, "x"},
		`ünï`:               {"ünï"},
		``:                  nil,
		`.a`:                nil,
		`a.`:                nil,
		`"open`:             nil,
		`"a"b`:              nil,
		`a.b.c.d`:           nil,
		`"a".`:              nil,
		`""`:                nil,
		`Mixed.Case "quote`: {"Mixed", `Case "quote`},
	} {
		got, err := ParseName(text)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	n := Name{"Sh.op", `or"ders`}
	if n.SQL() != `"Sh.op"."or""ders"` || n.String() != `Sh.op.or"ders` || n.Table() != `or"ders` || n.ToLower()[0] != "sh.op" {
		t.Errorf("%s %s", n.SQL(), n)
	}
}

func FuzzParseName(f *testing.F) {
	f.Add(`"a.b".c`)
	f.Fuzz(func(t *testing.T, text string) {
		name, err := ParseName(text)
		if err != nil {
			return
		}
		if again, err := ParseName(name.SQL()); err != nil || !slices.Equal(again, name) {
			t.Errorf("%q is %q, and %s is %q, %v", text, name, name.SQL(), again, err)
		}
	})
}

func TestLiteral(t *testing.T) {
	for text, want := range map[string]string{"a": "'a'", "it's": "'it''s'", `a\'`: ` E'a\\'''`, "": "''"} {
		if got := Literal(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
