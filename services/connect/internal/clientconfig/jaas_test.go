package clientconfig

import (
	"maps"
	"strings"
	"testing"
)

func TestJaas(t *testing.T) {
	const module = "org.apache.kafka.common.security.plain.PlainLoginModule "
	for text, want := range map[string]map[string]string{
		module + `required username="ana" password="s3cret";`:                  {"username": "ana", "password": "s3cret"},
		"\n" + module + "Required\n  username='ana'\n  password = 'it\"s' ;\n": {"username": "ana", "password": `it"s`},
		module + `required username=ana password=s3-c_r.e$t;`:                  {"username": "ana", "password": "s3-c_r.e$t"},
		module + `required password="a\"b\\c\d\t\101\47" username="ñ";`:        {"username": "ñ", "password": "a\"b\\cd\tA'"},
		module + `requisite username="a" user_b="c" password="";`:              {"username": "a", "user_b": "c", "password": ""},
		module + `optional;`: {},
	} {
		if got, err := jaas(text); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                          "no login module",
		`"quoted" required;`:                        "no login module",
		module:                                      "required, requisite",
		module + `username="ana";`:                  "required, requisite",
		module + `required username="ana"`:          "semicolon",
		module + `required username "ana";`:         "username is not followed by =",
		module + `required password=;`:              "password has no value",
		module + `required password="hunter2`:       "no end",
		module + "required password=\"hunter2\n\";": "more than one line",
		module + `required ="hunter2";`:             "no key",
		module + `required password="hunter2"; ` + module + `required password;`: "one login module only",
	} {
		_, err := jaas(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzJaas has no text end in a panic, no value be in an error, and what was read be read again from how a user would write it.
func FuzzJaas(f *testing.F) {
	f.Add(`m required username="ana" password='it"s';`)
	f.Add(`m optional a=b c="\101\\\"";`)
	f.Add("m required ñ=\"\\")
	f.Fuzz(func(t *testing.T, text string) {
		options, err := jaas(text)
		if err != nil {
			return
		}
		var b strings.Builder
		b.WriteString("m required")
		quoted := strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`, "\r", `\r`)
		for key, value := range options {
			b.WriteString(` "` + quoted.Replace(key) + `"="` + quoted.Replace(value) + `"`)
		}
		b.WriteString(";")
		again, err := jaas(b.String())
		if err != nil || !maps.Equal(again, options) {
			t.Errorf("%q: %q, then %q, %v", text, options, again, err)
		}
	})
}
