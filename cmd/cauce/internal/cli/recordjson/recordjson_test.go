package recordjson

import (
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAppend(t *testing.T) {
	r := &kgo.Record{
		Topic: "orders", Partition: 1, Offset: 5, Timestamp: time.UnixMilli(1700000000123),
		Key: nil, Value: []byte("<é>"),
		Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0xff}}, {Key: "n"}},
	}
	want := `{"topic":"orders","partition":1,"offset":5,"timestamp":1700000000123,"timestamp_type":"create",` +
		`"key":null,"value":"<é>","headers":[{"name":"h","value_base64":"/w=="},{"name":"n","value":null}]}` + "\n"
	if got := string(Append(nil, r)); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		line string
		want kgo.Record
	}{
		{`{}`, kgo.Record{Partition: -1}},
		{`{"key":"a","value":""}`, kgo.Record{Partition: -1, Key: []byte("a"), Value: []byte{}}},
		{`{"topic":"x","offset":9,"partition":2,"timestamp":5,"value":{"n": 1}}`, kgo.Record{Partition: 2, Timestamp: time.UnixMilli(5), Value: []byte(`{"n": 1}`)}},
		{`{"value_base64":"/w==","headers":[{"name":"h","value":"x"}]}`, kgo.Record{Partition: -1, Value: []byte{0xff}, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}}},
	}
	for _, test := range tests {
		got, err := Parse([]byte(test.line))
		if err != nil || !reflect.DeepEqual(*got, test.want) {
			t.Errorf("Parse(%s) = %+v, %v, want %+v", test.line, got, err, test.want)
		}
	}
	for _, line := range []string{"", "x", `{"valeu":1}`, `{"value_base64":"*"}`, `{} {}`, `[1]`} {
		if _, err := Parse([]byte(line)); err == nil {
			t.Errorf("Parse(%s) was accepted", line)
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), "name", []byte{0xff}, true)
	f.Add([]byte{}, []byte{0, 0x80}, "", []byte{}, false)
	f.Fuzz(func(t *testing.T, key, value []byte, name string, header []byte, null bool) {
		r := &kgo.Record{Partition: 3, Timestamp: time.UnixMilli(7), Key: key, Value: value}
		if null {
			r.Key = nil
		}
		r.Headers = []kgo.RecordHeader{{Key: string([]rune(name)), Value: header}}
		got, err := Parse(Append(nil, r))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []*[]byte{&r.Key, &r.Value, &r.Headers[0].Value, &got.Key, &got.Value, &got.Headers[0].Value} {
			if *b != nil {
				*b = append([]byte{}, *b...)
			}
		}
		if !reflect.DeepEqual(got, r) {
			t.Fatalf("got %+v, want %+v", got, r)
		}
	})
}
