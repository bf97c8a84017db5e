package format

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func record() *kgo.Record {
	return &kgo.Record{
		Topic: "orders", Partition: 3, Offset: 42, LeaderEpoch: 7,
		Key: []byte("k1"), Value: []byte("v\x01"),
		Timestamp: time.UnixMilli(1700000000123),
		Headers:   []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}},
	}
}

func TestFormat(t *testing.T) {
	null := record()
	null.Key, null.Value, null.Headers = nil, nil, nil
	tests := []struct {
		template string
		record   *kgo.Record
		want     string
	}{
		{"", record(), ""},
		{`%v\n`, record(), "v\x01\n"},
		{`%t[%p]@%o %k=%s\n`, record(), "orders[3]@42 k1=v\x01\n"},
		{"%K %V %S %e", record(), "2 2 2 7"},
		{"%T %d", record(), "1700000000123 2023-11-14T22:13:20.123Z"},
		{"%h", record(), "a=1,b=NULL"},
		{"%R", record(), "\x00\x00\x00\x02"},
		{`100%% \x41\t\\\0`, record(), "100% A\t\\\x00"},
		{"%k|%v|%K|%V|%h|%R", null, "NULL|NULL|-1|-1||\xff\xff\xff\xff"},
		{"é%pé", record(), "é3é"},
	}
	for _, test := range tests {
		f, err := Parse(test.template, "NULL")
		if err != nil {
			t.Errorf("Parse(%q): %v", test.template, err)
			continue
		}
		if got := string(f.Append(nil, test.record)); got != test.want {
			t.Errorf("%q printed %q, want %q", test.template, got, test.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, template := range []string{"%", "%z", `\`, `\q`, `\x4`, `\xzz`, "ok %k %"} {
		if _, err := Parse(template, ""); err == nil {
			t.Errorf("Parse(%q) was accepted", template)
		}
	}
}

func TestHeadersRoundTrip(t *testing.T) {
	isNull := func(s string) bool { return s == "NULL" }
	headers, err := ParseHeaders("a=1,b=NULL,c=", isNull)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := Parse("%h", "NULL")
	if got := string(f.Append(nil, &kgo.Record{Headers: headers})); got != "a=1,b=NULL,c=" {
		t.Errorf("got %q", got)
	}
	if headers[1].Value != nil || headers[2].Value == nil {
		t.Error("null and empty values were confused")
	}
	if _, err := ParseHeaders("a", isNull); err == nil {
		t.Error("a header without = was accepted")
	}
}

func TestTime(t *testing.T) {
	for s, want := range map[string]time.Time{
		"1700000000123":             time.UnixMilli(1700000000123),
		"2023-11-14T22:13:20.5Z":    time.UnixMilli(1700000000500),
		"2023-11-15T00:13:20+02:00": time.UnixMilli(1700000000000),
		"2023-11-14":                time.Date(2023, 11, 14, 0, 0, 0, 0, time.Local),
	} {
		if got, err := Time(s); err != nil || !got.Equal(want) {
			t.Errorf("Time(%q) = %v, %v, want %v", s, got, err, want)
		}
	}
	if _, err := Time("yesterday"); err == nil {
		t.Error("yesterday was accepted")
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	f, err := Parse(`%t %p %o %T %d %k %v %h\n`, "")
	if err != nil {
		t.Fatal(err)
	}
	r, dst := record(), make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { dst = f.Append(dst[:0], r) }); n != 0 {
		t.Errorf("%v allocations per record, want 0", n)
	}
}
