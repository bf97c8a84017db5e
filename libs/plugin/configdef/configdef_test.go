package configdef

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// definition has a key of each type.
func definition() Definition {
	return Definition{
		{Name: "file", Type: String, Required: true, Importance: High, Doc: "x", Valid: Rule{NonEmpty: true}, Dependents: []string{"mode"}},
		{Name: "batch.size", Type: Int, Default: new("2000"), Importance: Low, Doc: "x", Valid: Rule{Min: new(1.0), Max: new(5000.0)}},
		{Name: "linger.ms", Type: Long, Default: new("5"), Importance: Low, Doc: "x"},
		{Name: "level", Type: Short, Importance: Low, Doc: "x"},
		{Name: "ratio", Type: Double, Default: new("0.5"), Importance: Low, Doc: "x", Valid: Rule{Min: new(0.0)}},
		{Name: "mode", Type: String, Default: new("bulk"), Importance: Medium, Doc: "x", Recommended: []string{"bulk"}, Valid: Rule{OneOf: []string{"bulk", "Incrementing"}, IgnoreCase: true}},
		{Name: "tables", Type: List, Default: new(""), Importance: Medium, Doc: "x", Valid: Rule{Pattern: "[a-z]+"}},
		{Name: "verify", Type: Boolean, Default: new("true"), Importance: Low, Doc: "x"},
		{Name: "password", Type: Password, Importance: High, Doc: "x", Valid: Rule{NonEmpty: true}},
		{Name: "handler", Type: Class, Importance: Low, Doc: "x"},
	}
}

func TestValidate(t *testing.T) {
	if err := definition().Check(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		key, text, fault string
	}{
		{"file", "/tmp/x", ""},
		{"file", " ", "must not be empty"},
		{"batch.size", " 7 ", ""},
		{"batch.size", "seven", `batch.size is "seven": an integer of 32 bits`},
		{"batch.size", "2147483648", "an integer of 32 bits"},
		{"batch.size", "0", "at least 1"},
		{"batch.size", "5001", "at most 5000"},
		{"linger.ms", "9223372036854775807", ""},
		{"level", "32768", "an integer of 16 bits"},
		{"ratio", "1e3", ""},
		{"ratio", "NaN", "at least 0"},
		{"ratio", "much", "a number"},
		{"mode", "INCREMENTING", ""},
		{"mode", "other", "one of bulk, Incrementing"},
		{"tables", "a, b", ""},
		{"tables", "a,B", "a text like [a-z]+"},
		{"tables", "", ""},
		{"verify", "TRUE", ""},
		{"verify", "yes", "true or false"},
		{"password", "s3cret", ""},
		{"password", "", "must not be empty"},
		{"handler", "a.b.C", ""},
	}
	for _, test := range tests {
		config := map[string]string{"file": "f", test.key: test.text, "unknown": "x"}
		for _, v := range definition().Validate(config) {
			got := strings.Join(v.Errors, "; ")
			if v.Name != test.key {
				if got != "" {
					t.Errorf("%s=%q: %s has %q", test.key, test.text, v.Name, got)
				}
				continue
			}
			if test.fault == "" && got != "" || !strings.Contains(got, test.fault) {
				t.Errorf("%s=%q: %q, want %q", test.key, test.text, got, test.fault)
			}
			if test.key == "password" && *v.Value != Hidden || test.key != "password" && *v.Value != test.text {
				t.Errorf("%s=%q is shown as %q", test.key, test.text, *v.Value)
			}
		}
		_, err := definition().Parse(config)
		if (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("parsing %s=%q: %v, want %q", test.key, test.text, err, test.fault)
		}
	}
}

func TestWhatIsNotGiven(t *testing.T) {
	values := definition().Validate(nil)
	if len(values) != len(definition()) || values[0].Name != "file" || len(values[0].Errors) != 1 || !strings.Contains(values[0].Errors[0], "file is required") {
		t.Errorf("values %+v", values)
	}
	if values[0].Value != nil || *values[1].Value != "2000" || values[8].Value != nil || !values[3].Visible {
		t.Errorf("values %+v", values)
	}
}

func TestPasswordsAreNeverTold(t *testing.T) {
	d := Definition{{Name: "p", Type: Password, Importance: High, Doc: "x", Valid: Rule{Pattern: "a+"}}}
	config := map[string]string{"p": "s3cret"}
	_, err := d.Parse(config)
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %v", err)
	}
	if v := d.Validate(config)[0]; *v.Value != Hidden || strings.Contains(v.Errors[0], "s3cret") {
		t.Errorf("value %q, %q", *v.Value, v.Errors)
	}
}

func TestTypedValues(t *testing.T) {
	v, err := definition().Parse(map[string]string{"file": " f ", "tables": "a, b", "password": " p ", "verify": "False"})
	if err != nil {
		t.Fatal(err)
	}
	got := []any{v.String("file"), v.Int("batch.size"), v.Millis("linger.ms"), v.Float("ratio"), v.List("tables"), v.Bool("verify"), v.String("password")}
	want := []any{"f", int64(2000), 5 * time.Millisecond, 0.5, []string{"a", "b"}, false, "p"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("values %#v, want %#v", got, want)
	}
	if v.Has("level") || v.Int("level") != 0 || v.Has("handler") || v.String("handler") != "" || !v.Has("file") {
		t.Error("a value that was not given is there")
	}
	for name, ask := range map[string]func(){
		"unknown key": func() { v.Has("nothing") }, "unknown value": func() { v.Int("nothing") },
		"other type": func() { v.Int("file") }, "other type, null": func() { v.Bool("level") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			ask()
		})
	}
}

func TestMillisAreCapped(t *testing.T) {
	for given, sign := range map[string]time.Duration{"9223372036854775807": 1, "-9223372036854775808": -1} {
		v, err := definition().Parse(map[string]string{"file": "f", "linger.ms": given})
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Millis("linger.ms"); got*sign < 200*365*24*time.Hour {
			t.Errorf("%s milliseconds are %v", given, got)
		}
	}
}

func TestFindings(t *testing.T) {
	before := definition().Validate(map[string]string{"file": "f", "mode": "wrong"})
	after := Add(before, []Finding{
		{Name: "mode", Errors: []string{"really"}, Recommended: []string{"Incrementing"}},
		{Name: "tables", Recommended: []string{}, Hidden: true},
		{Name: "new", Errors: []string{"what is this"}},
	})
	if len(before[5].Errors) != 1 || !before[6].Visible {
		t.Error("the values that were given have changed")
	}
	mode, tables, last := after[5], after[6], after[len(after)-1]
	if len(mode.Errors) != 2 || mode.Recommended[0] != "Incrementing" || tables.Visible || tables.Recommended == nil || last.Name != "new" || !last.Visible {
		t.Errorf("mode %+v, tables %+v, last %+v", mode, tables, last)
	}
}

func TestFaultsOfADefinition(t *testing.T) {
	good := Key{Name: "a", Type: String, Importance: High, Doc: "x"}
	tests := []struct {
		spoil func(k *Key)
		want  string
	}{
		{func(*Key) {}, ""},
		{func(k *Key) { k.Name = "" }, "no name"},
		{func(k *Key) { k.Type = "TEXT" }, `no type "TEXT"`},
		{func(k *Key) { k.Importance = "" }, "no importance"},
		{func(k *Key) { k.Width = "WIDE" }, "no width"},
		{func(k *Key) { k.Doc = "" }, "not documented"},
		{func(k *Key) { k.Required, k.Default = true, new("") }, "required and has a default"},
		{func(k *Key) { k.Type, k.Default = Int, new("x") }, `its default is "x"`},
		{func(k *Key) { k.Valid.Min = new(1.0) }, "only numbers"},
		{func(k *Key) { k.Type, k.Valid.NonEmpty = Int, true }, "only texts"},
		{func(k *Key) { k.Valid.Pattern = "(" }, "its pattern"},
		{func(k *Key) { k.Dependents = []string{"b"} }, `dependent "b"`},
	}
	for _, test := range tests {
		k := good
		test.spoil(&k)
		if err := (Definition{k}).Check(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", k, err, test.want)
		}
	}
	if err := (Definition{good, good}).Check(); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("the same key twice: %v", err)
	}
	if d := (Definition{good}); d.Find("a") != &d[0] || d.Find("b") != nil {
		t.Error("Find")
	}
}
