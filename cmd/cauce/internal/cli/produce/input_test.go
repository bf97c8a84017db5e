package produce

import (
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/twmb/franz-go/pkg/kgo"
)

func ptr(s string) *string { return &s }

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

func describe(r *kgo.Record) string {
	text := show(r.Key) + "=" + show(r.Value)
	for _, h := range r.Headers {
		text += " " + h.Key + ":" + show(h.Value)
	}
	if r.Partition >= 0 {
		text += fmt.Sprintf(" @%d", r.Partition)
	}
	return text
}

func TestRecords(t *testing.T) {
	tests := []struct {
		name   string
		layout layout
		input  string
		want   []string
	}{
		{"lines", layout{delimiter: "\n"}, "a\nb\n", []string{`null="a"`, `null="b"`}},
		{"last line without end", layout{delimiter: "\n"}, "a\nb", []string{`null="a"`, `null="b"`}},
		{"empty lines count", layout{delimiter: "\n"}, "\n\na\n", []string{`null=""`, `null=""`, `null="a"`}},
		{"nothing", layout{delimiter: "\n"}, "", nil},
		{"delimiter of two bytes", layout{delimiter: "||"}, "a|b||c", []string{`null="a|b"`, `null="c"`}},
		{"whole input", layout{}, "a\nb\n", []string{`null="a\nb\n"`}},
		{"keys", layout{delimiter: "\n", keySeparator: ":"}, "k:v:w\nv\n:v\nk:\n", []string{`"k"="v:w"`, `null="v"`, `""="v"`, `"k"=""`}},
		{"null marker", layout{delimiter: "\n", keySeparator: ":", null: ptr("NULL")}, "NULL:v\nk:NULL\nNULL:NULL\n", []string{`null="v"`, `"k"=null`, `null=null`}},
		{"empty is null", layout{delimiter: "\n", keySeparator: ":", null: ptr("")}, "k:\n\n", []string{`"k"=null`, `null=null`}},
		{"headers", layout{delimiter: "\n", headersSeparator: "\t", keySeparator: ":", null: ptr("-")}, "a=1,b=-\tk:v\n\tx\n", []string{`"k"="v" a:"1" b:null`, `null="x"`}},
		{"json", layout{delimiter: "\n", json: true}, "{\"key\":\"k\",\"partition\":2}\n\n{\"value\":\"v\"}\n", []string{`"k"=null @2`, `null="v"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for record, err := range test.layout.records(iotest.OneByteReader(strings.NewReader(test.input))) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, describe(record))
			}
			if strings.Join(got, "; ") != strings.Join(test.want, "; ") {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestRecordsNameTheFault(t *testing.T) {
	tests := []struct {
		layout layout
		input  string
		want   string
	}{
		{layout{delimiter: "\n", json: true}, "{}\n{", "record 2 of the input"},
		{layout{delimiter: "\n", headersSeparator: "\t"}, "a=1\tv\nx\n", "record 2 of the input: no headers"},
		{layout{delimiter: "\n", headersSeparator: "\t"}, "a\tv\n", `header "a"`},
	}
	for _, test := range tests {
		var fault error
		for _, err := range test.layout.records(strings.NewReader(test.input)) {
			fault = err
		}
		if fault == nil || !strings.Contains(fault.Error(), test.want) {
			t.Errorf("%q: got %v, want it to say %q", test.input, fault, test.want)
		}
	}
}

func TestRepeated(t *testing.T) {
	l := layout{keySeparator: "="}
	var got []string
	for record := range l.repeated([]string{"a=1", "b=2"}, true) {
		if got = append(got, describe(record)); len(got) == 3 {
			break
		}
	}
	if want := `"a"="1" "b"="2" "a"="1"`; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %v", got, want)
	}
	got = nil
	for record := range l.repeated([]string{"a", "b"}, false) {
		got = append(got, describe(record))
	}
	if len(got) != 2 {
		t.Errorf("got %v, want both values once", got)
	}
}
