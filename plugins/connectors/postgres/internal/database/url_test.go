package database

import (
	"slices"
	"strings"
	"testing"
)

func TestToLibpq(t *testing.T) {
	for _, test := range []struct {
		given, want string
		ignored     []string
	}{
		{given: "postgres://u:p@h:1/db?sslmode=disable", want: "postgres://u:p@h:1/db?sslmode=disable"},
		{given: "postgresql://h/db", want: "postgresql://h/db"},
		{given: "jdbc:postgresql://h:1/db", want: "postgres://h:1/db"},
		{given: "jdbc:postgresql://h1:1,h2:2/db?targetServerType=primary", want: "postgres://h1:1,h2:2/db?target_session_attrs=primary"},
		{given: "jdbc:postgresql://h/", want: "postgres://h/"},
		{given: "jdbc:postgresql:db", want: "postgres://localhost/db"},
		{given: "jdbc:postgresql:/", want: "postgres://localhost/"},
		{given: "jdbc:postgresql://h/db?user=u&password=p%26q&ssl=true", want: "postgres://h/db?password=p%26q&sslmode=verify-full&user=u"},
		{given: "jdbc:postgresql://h/db?ssl=true&sslmode=require", want: "postgres://h/db?sslmode=require"},
		{given: "jdbc:postgresql://h/db?ssl=false", want: "postgres://h/db"},
		{given: "jdbc:postgresql://h/db?currentSchema=shop&reWriteBatchedInserts=true&ApplicationName=x&defaultRowFetchSize=10",
			want: "postgres://h/db?application_name=x&search_path=shop", ignored: []string{"defaultRowFetchSize", "reWriteBatchedInserts"}},
		{given: "jdbc:mysql://h/db"}, {given: ""}, {given: "h/db"}, {given: "jdbc:postgresql://h/db?a=%zz"}, {given: "jdbc:postgresql://h/db?targetServerType=x"},
	} {
		got, ignored, err := ToLibpq(test.given)
		if got != test.want || !slices.Equal(ignored, test.ignored) || (err == nil) != (test.want != "") {
			t.Errorf("%s: %s, %v, %v", test.given, got, ignored, err)
		}
	}
}

func TestParse(t *testing.T) {
	c := Config{URL: "jdbc:postgresql://h:77/db?user=a&password=b", User: "ana", Password: "secret", TimeZone: "Europe/Madrid"}
	parsed, _, err := c.Parse()
	if err != nil {
		t.Fatal(err)
	}
	if parsed.Host != "h" || parsed.Port != 77 || parsed.Database != "db" || parsed.User != "ana" || parsed.Password != "secret" ||
		parsed.ConnectTimeout != connectLimit || parsed.RuntimeParams["timezone"] != "Europe/Madrid" {
		t.Errorf("%+v", parsed)
	}
	c.URL = "postgres://h:port/db?password=hush"
	if _, _, err := c.Parse(); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("a port that is none: %v", err)
	}
}

func FuzzToLibpq(f *testing.F) {
	f.Add("jdbc:postgresql://h1:1,h2:2/db?ssl=true&user=u&targetServerType=primary&x=y")
	f.Add("jdbc:postgresql:db")
	f.Fuzz(func(t *testing.T, text string) {
		libpq, _, err := ToLibpq(text)
		if err != nil {
			return
		}
		if !strings.HasPrefix(libpq, "postgres://") && !strings.HasPrefix(libpq, "postgresql://") {
			t.Errorf("%q is %q", text, libpq)
		}
		// It may be wrong in itself, which is found as it is used; what libpq takes is taken again.
		if again, _, err := ToLibpq(libpq); err != nil || again != libpq {
			t.Errorf("%q, then %q, %v", libpq, again, err)
		}
	})
}
