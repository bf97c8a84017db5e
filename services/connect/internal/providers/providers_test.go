package providers

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

// secrets is a folder with a .properties file, a folder beside it, and providers that may read the first.
func secrets(t *testing.T) (folder string, s *Set) {
	t.Helper()
	root := t.TempDir()
	folder = filepath.Join(root, "secrets")
	for name, text := range map[string]string{
		"secrets/db.properties": "user=ana\npassword=a:b \\u00e9\n", "secrets/token": "t0ken\n", "secrets/sub/x": "", "secretsnot/token": "no", "secrets/bad.properties": "a=\\u1",
		"secrets/large": strings.Repeat("x", maxFileBytes+1),
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(map[string]string{
		"config.providers":            "file, dir,env",
		"config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider", "config.providers.file.param.allowed.paths": folder + "/,/",
		"config.providers.dir.class": "DirectoryConfigProvider", "config.providers.dir.param.allowed.paths": folder,
		"config.providers.env.class": "EnvVarConfigProvider", "config.providers.env.param.allowlist.pattern": "DB_.*",
	}, []string{"DB_HOST=db:5432", "HOME=/root", "DB_EMPTY="})
	if err != nil {
		t.Fatal(err)
	}
	return folder, s
}

func TestResolve(t *testing.T) {
	folder, s := secrets(t)
	given := map[string]string{
		"plain": "x", "url": "jdbc://${env:DB_HOST}/${file:" + folder + "/db.properties:user}?${topic}", "password": "${file:" + folder + "/db.properties:password}",
		"token": "${dir:" + folder + ":token}", "empty": "a${env:DB_EMPTY}b", "open": "${env:DB_HOST",
	}
	before := maps.Clone(given)
	got, err := s.Resolve(given)
	want := map[string]string{"plain": "x", "url": "jdbc://db:5432/ana?${topic}", "password": "a:b é", "token": "t0ken\n", "empty": "ab", "open": "${env:DB_HOST"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if !maps.Equal(given, before) {
		t.Error("what was given has changed")
	}
	if got, err := s.Resolve(nil); len(got) != 0 || err != nil {
		t.Error(got, err)
	}
}

func TestRefusals(t *testing.T) {
	folder, s := secrets(t)
	for _, test := range []struct{ text, words string }{
		{"${vault:a:b}", `no provider "vault"`},
		{"${file:" + folder + "/db.properties:port}", `no key "port"`},
		{"${file:" + folder + "/gone:a}", "no such file"},
		{"${file:" + folder + "/bad.properties:a}", "line 1"},
		{"${file:" + folder + "/large:a}", "larger than 1048576 bytes"},
		{"${file:a}", "no path"},
		{"${dir:" + folder + ":gone}", "no such file"},
		{"${dir:" + folder + ":sub}", "is no file"},
		{"${dir:" + folder + ":sub/x}", "no name of a file"},
		{"${dir:" + folder + ":..}", "no name of a file"},
		{"${dir:" + folder + "not:token}", "allowed.paths"},
		{"${dir:" + folder + "/../secretsnot:token}", "allowed.paths"},
		{"${dir:secrets:token}", "allowed.paths"},
		{"${env:HOME}", "no variable HOME"},
		{"${env:DB_GONE}", "no variable DB_GONE"},
		{"${env:path:DB_HOST}", "no path"},
	} {
		_, err := s.Resolve(map[string]string{"a": "${env:DB_HOST}", "the.key": "x" + test.text})
		if err == nil || !strings.Contains(err.Error(), test.words) || !strings.HasPrefix(err.Error(), "the.key: "+test.text) || strings.Contains(err.Error(), "5432") {
			t.Errorf("%s: %v", test.text, err)
		}
	}
	_, err := s.Resolve(map[string]string{"a": "${env:X}", "b": "${env:Y}"})
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("not every fault is told: %v", err)
	}
}

func TestNew(t *testing.T) {
	for _, test := range []struct{ class, param, value, words string }{
		{"VaultConfigProvider", "a", "b", "config.providers.p.class"},
		{"", "a", "b", "one of FileConfigProvider"},
		{"FileConfigProvider", "allowed.paths", "secrets", "no absolute path"},
		{"DirectoryConfigProvider", "allowed.paths", "/does/not/exist", "config.providers.p.param.allowed.paths"},
		{"EnvVarConfigProvider", "allowlist.pattern", "(", "config.providers.p.param.allowlist.pattern"},
	} {
		_, err := New(map[string]string{"config.providers": "p", "config.providers.p.class": test.class, "config.providers.p.param." + test.param: test.value}, nil)
		if err == nil || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	s, err := New(map[string]string{"config.providers": "all,env", "config.providers.all.class": "DirectoryConfigProvider", "config.providers.env.class": "EnvVarConfigProvider"}, []string{"A=b"})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "k"), []byte("v"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Resolve(map[string]string{"x": "${all:" + folder + ":k}${env:A}"}); err != nil || got["x"] != "vb" {
		t.Errorf("without bounds: %v, %v", got, err)
	}
}

func TestHide(t *testing.T) {
	connector := map[string]string{"password": "${env:P}", "topic": "${topic}", "url": "x-${file:/a:b}"}
	tasks := []map[string]string{{"password": "secret", "topic": "t", "tables": "a,b"}, {"url": "x-secret", "password": "other"}}
	got := Hide(connector, tasks)
	want := []map[string]string{{"password": "${env:P}", "topic": "t", "tables": "a,b"}, {"url": "x-${file:/a:b}", "password": "${env:P}"}}
	if !slices.EqualFunc(got, want, maps.Equal) || tasks[0]["password"] != "secret" {
		t.Errorf("%v, of %v", got, tasks)
	}
}

func TestConceal(t *testing.T) {
	raw := map[string]string{"url": "x-${env:U}", "port": "${env:P}", "secret": "${env:S}", "plain": "x-${topic}"}
	resolved := map[string]string{"url": "x-secret", "port": "0", "secret": "hidden", "plain": "x-${topic}"}
	values := []configdef.Value{
		{Name: "url", Value: new("x-secret"), Errors: []string{`url is "x-secret": no`, "cannot reach x-secret"}}, {Name: "port", Value: new("0"), Errors: []string{`port is "0": 10 is wanted`}},
		{Name: "secret", Value: new(configdef.Hidden)}, {Name: "plain", Value: new("x-${topic}")}, {Name: "default", Value: new("d"), Errors: []string{"not with x-secret"}}, {Name: "none"},
	}
	got := Conceal(values, raw, resolved)
	for i, want := range []struct{ value, errors string }{
		{"x-${env:U}", `url is "x-${env:U}": no; cannot reach x-${env:U}`}, {"${env:P}", `port is "${env:P}": 10 is wanted`}, {configdef.Hidden, ""}, {"x-${topic}", ""}, {"d", "not with x-${env:U}"},
	} {
		if *got[i].Value != want.value || strings.Join(got[i].Errors, "; ") != want.errors {
			t.Errorf("%s is %q, %q", got[i].Name, *got[i].Value, got[i].Errors)
		}
	}
	if got[5].Value != nil || *values[0].Value != "x-secret" || values[0].Errors[1] != "cannot reach x-secret" {
		t.Error("what was given has changed")
	}
}

func TestReferences(t *testing.T) {
	for _, test := range []struct {
		text                string
		provider, path, key string
	}{
		{"${a:b}", "a", "", "b"}, {"x${a:b:c}y", "a", "b", "c"}, {"${a:b:c:d}", "a", "b", "c:d"}, {"${a::c}", "a", "", "c"}, {"${a:}", "a", "", ""}, {"$${a:b}}", "a", "", "b"},
		{"${t}${a:b}", "a", "", "b"},
	} {
		got := references(test.text)
		if len(got) != 1 || got[0].provider != test.provider || got[0].path != test.path || got[0].key != test.key {
			t.Errorf("%s: %+v", test.text, got)
		}
	}
	for _, none := range []string{"", "a", "${a}", "${a:b", "$a:b}", "{a:b}", "${"} {
		if got := references(none); got != nil {
			t.Errorf("%s: %+v", none, got)
		}
	}
}

// FuzzReferences puts a text together again from its references and what is between them.
func FuzzReferences(f *testing.F) {
	for _, seed := range []string{"${a:b:c}", "x${a:b}${c:d}", "${a${b:c}}", "${:}", "${}", "}${"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		again, end := "", 0
		for _, r := range references(text) {
			again += text[end:r.begin] + "${" + r.provider + ":"
			if strings.Count(text[r.begin:r.end], ":") > 1 {
				again += r.path + ":"
			}
			again += r.key + "}"
			end = r.end
			if strings.ContainsAny(r.provider+r.path+r.key, "}") || strings.Contains(r.provider+r.path, ":") {
				t.Errorf("%q: %+v", text, r)
			}
		}
		if again += text[end:]; again != text {
			t.Errorf("%q has become %q", text, again)
		}
	})
}
