package offsets

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/jvmtest"
)

func apply(t *testing.T, table *Table, key, value string, timestampMs int64) {
	t.Helper()
	r := Record{Key: []byte(key)}
	if value != "" {
		r.Value = []byte(value)
	}
	if err := table.Apply(r, timestampMs); err != nil {
		t.Fatal(err)
	}
}

// TestRecordedTopic follows what a JVM worker wrote and has the same bytes for the same offsets.
func TestRecordedTopic(t *testing.T) {
	table := New()
	records := jvmtest.Records(t, jvmtest.OffsetTopic)
	if len(records) == 0 {
		t.Fatal("no records")
	}
	for _, r := range records {
		value := ""
		e := Entry{Partition: Map{"filename": "lines.txt"}}
		if strings.Contains(r.Key, "never") {
			e.Partition = Map{"filename": "never.txt"}
		}
		if r.Value != nil {
			value = *r.Value
			offset, err := ParseMap([]byte(value))
			if err != nil {
				t.Fatal(err)
			}
			e.Offset = offset
		}
		ours := table.Records("src", e)
		if len(ours) != 1 || string(ours[0].Key) != r.Key || string(ours[0].Value) != value {
			t.Errorf("%s %s is ours, %s %s theirs", ours[0].Key, ours[0].Value, r.Key, value)
		}
		apply(t, table, r.Key, value, r.Offset)
	}
	want := []Entry{{Map{"filename": "lines.txt"}, Map{"position": int64(14)}}}
	if got := table.Entries("src"); !reflect.DeepEqual(got, want) {
		t.Errorf("the source stands at %v", got)
	}
	if got := table.Connectors(); !slices.Equal(got, []string{"src"}) {
		t.Errorf("connectors: %v", got)
	}
}

func TestKeysInAnotherOrderAreTheSamePartition(t *testing.T) {
	const ab, ba = `["c",{"a":1,"b":"x"}]`, `[ "c", {"b":"x","a":1} ]`
	partition := Map{"b": "x", "a": int64(1)}
	table := New()
	apply(t, table, ab, `{"at":1}`, 10)
	apply(t, table, ba, `{"at":2}`, 20)
	if got := table.Get("c", partition); got["at"] != int64(2) {
		t.Errorf("after both: %v", got)
	}
	// The partition of the topic that has the older key may be read last.
	apply(t, table, ab, `{"at":1}`, 10)
	if got := table.Get("c", partition); got["at"] != int64(2) {
		t.Errorf("after the older one again: %v", got)
	}
	if got := table.Records("c", Entry{partition, Map{"at": int64(3)}}); len(got) != 1 || string(got[0].Key) != ba || string(got[0].Value) != `{"at":3}` {
		t.Errorf("the next offset is written as %s", got)
	}
	gone := table.Records("c", Entry{Partition: partition})
	if len(gone) != 2 || gone[0].Value != nil || gone[1].Value != nil {
		t.Errorf("tombstones: %s", gone)
	}
	for _, r := range gone {
		apply(t, table, string(r.Key), "", 30)
	}
	if got := table.Get("c", partition); got != nil || len(table.Entries("c")) != 0 || len(table.Connectors()) != 0 {
		t.Errorf("after the tombstones: %v", got)
	}
	// A tombstone that is read first still counts against what is older.
	other := New()
	apply(t, other, ba, "", 30)
	apply(t, other, ab, `{"at":1}`, 10)
	if got := other.Get("c", partition); got != nil {
		t.Errorf("an older offset came back: %v", got)
	}
}

func TestPartitionsDiffer(t *testing.T) {
	table := New()
	for i, key := range []string{
		`["c",{"a":1}]`, `["c",{"a":"1"}]`, `["c",{"a":1.0}]`, `["c",{"a":null}]`, `["c",{"a":true}]`, `["c",{}]`, `["c",null]`, `["d",{"a":1}]`,
		`["c",{"a":1,"b":1}]`, `["c",{"a":"1\",\"b\":1"}]`, `["c",{"a":9223372036854775808}]`,
	} {
		apply(t, table, key, `{"n":`+string(rune('0'+i%10))+`}`, int64(i))
	}
	if got := len(table.Entries("c")); got != 9 {
		t.Errorf("%d partitions: %v", got, table.Entries("c"))
	}
	if got := table.Get("c", Map{"a": 1.0}); got["n"] != int64(2) {
		t.Errorf("of 1.0: %v", got)
	}
}

func TestPassedOver(t *testing.T) {
	for key, value := range map[string]string{
		"": "{}", "x": "{}", `["c"]`: "{}", `["c",{},1]`: "{}", `[1,{}]`: "{}", `[null,{}]`: "{}", `["c",[1]]`: "{}", `["c",{"a":{}}]`: "{}",
		`["c",{"a":1}]`: "[]", `["c",{"b":1}]`: `{"a":[1]}`,
	} {
		if err := New().Apply(Record{Key: []byte(key), Value: []byte(value)}, 1); !errors.Is(err, ErrPassedOver) {
			t.Errorf("%s %s: %v", key, value, err)
		}
	}
}

// TestNewKeysAreThoseOfAHashMap has the fields in the order in which a JVM iterates a HashMap that they were put into.
func TestNewKeysAreThoseOfAHashMap(t *testing.T) {
	for _, want := range []string{
		"schema db table",
		"cluster partition topic",
		"b f x n",
		"server database é€ name-😀",
		"k0 k1 k2 k3 k4 k5 k6 k7 k8 k9",
		"field.number8 field.number7 field.number6 field.number5 field.number10 field.number11 field.number12 field.number13 field.number0 field.number4 field.number3 field.number2 field.number1",
	} {
		partition := Map{}
		text := `["c",{`
		for i, field := range strings.Fields(want) {
			partition[field] = int64(i)
			if i > 0 {
				text += ","
			}
			text += fmt.Sprintf("%q:%d", field, i)
		}
		text += "}]"
		got := New().Records("c", Entry{partition, Map{"x": int64(1)}})
		if string(got[0].Key) != text {
			t.Errorf("%s is ours, %s is a JVM's", got[0].Key, text)
		}
	}
}

func TestValuesAreWrittenAsJacksonDoes(t *testing.T) {
	for want, value := range map[string]any{`1.0`: 1.0, `1.5`: 1.5, `"<é\""`: "<é\"", `null`: nil, `true`: true, `-3`: int64(-3), `9223372036854775808`: json.Number("9223372036854775808"), `"NaN"`: math.NaN()} {
		got := New().Records("c", Entry{nil, Map{"v": value}})
		if string(got[0].Key) != `["c",null]` || string(got[0].Value) != `{"v":`+want+`}` {
			t.Errorf("%s %s is ours, %s is a JVM's", got[0].Key, got[0].Value, want)
		}
	}
}

func TestSubmitted(t *testing.T) {
	s := NewSubmitted()
	p, q := s.Partition(Map{"f": "a"}), s.Partition(Map{"f": "b"})
	if p == q || s.Partition(Map{"f": "a"}) != p {
		t.Fatal("partitions are mixed up")
	}
	at := func(n int) json.RawMessage { return fmt.Appendf(nil, `{"at":%d}`, n) }
	take := func(what string, want ...Entry) []Entry {
		t.Helper()
		got, err := s.Take()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v, want %v", what, got, err, want)
		}
		return got
	}
	first, second, third := s.Submit(p, at(1)), s.Submit(p, at(2)), s.Submit(p, at(3))
	other := s.Submit(q, at(7))
	s.Ack(second)
	s.Ack(third)
	take("with the first one missing")
	if s.Unacked() != 2 || s.Held() != 4 {
		t.Errorf("%d are open, %d are held", s.Unacked(), s.Held())
	}
	s.Ack(first)
	s.Ack(other)
	got := take("with all", Entry{Map{"f": "a"}, Map{"at": int64(3)}}, Entry{Map{"f": "b"}, Map{"at": int64(7)}})
	if s.Unacked() != 0 || s.Held() != 0 {
		t.Errorf("%d are open, %d are held", s.Unacked(), s.Held())
	}
	take("again")
	newer := s.Submit(q, at(8))
	s.Ack(newer)
	s.Return(got)
	take("after what could not be stored", Entry{Map{"f": "a"}, Map{"at": int64(3)}}, Entry{Map{"f": "b"}, Map{"at": int64(8)}})
	a, b, c := s.Submit(p, at(4)), s.Submit(p, at(5)), s.Submit(p, nil)
	s.Ack(a)
	s.Cancel(b)
	s.Ack(c)
	take("after one that was not sent", Entry{Map{"f": "a"}, Map{"at": int64(4)}})
	s.Ack(s.Submit(p, at(6)))
	s.Ack(s.Submit(q, json.RawMessage(`{"at":[]}`)))
	if got, err := s.Take(); len(got) != 1 || err == nil || !strings.Contains(err.Error(), `offset {"at":[]} of partition {"f":"b"}: field "at"`) {
		t.Errorf("with an offset that is none: %v, %v", got, err)
	}
	take("after that")
}

func TestSinks(t *testing.T) {
	var body struct {
		Offsets []struct{ Partition, Offset json.RawMessage }
	}
	parse := func(text string) (map[TopicPartition]int64, error) {
		body.Offsets = nil
		if err := json.Unmarshal([]byte(text), &body.Offsets); err != nil {
			t.Fatal(err)
		}
		var entries []Entry
		for _, o := range body.Offsets {
			p, err := ParseMap(o.Partition)
			if err != nil {
				t.Fatal(err)
			}
			offset, err := ParseMap(o.Offset)
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, Entry{p, offset})
		}
		return ParseSink(entries)
	}
	got, err := parse(`[{"partition":{"kafka_topic":"t","kafka_partition":1},"offset":{"kafka_offset":5}},{"partition":{"kafka_topic":"t","kafka_partition":"0"},"offset":{"kafka_offset":"7"}},
		{"partition":{"kafka_topic":"s","kafka_partition":0},"offset":{"kafka_offset":1}},{"partition":{"kafka_topic":"s","kafka_partition":0},"offset":null}]`)
	want := map[TopicPartition]int64{{"t", 1}: 5, {"t", 0}: 7, {"s", 0}: Forget}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{
		`[{"partition":{"a":1},"offset":null}]`, `[{"partition":{"kafka_topic":"t"},"offset":null}]`, `[{"partition":{"kafka_topic":1,"kafka_partition":1},"offset":null}]`,
		`[{"partition":{"kafka_topic":"t","kafka_partition":"x"},"offset":null}]`, `[{"partition":{"kafka_topic":"t","kafka_partition":1.0},"offset":null}]`,
		`[{"partition":{"kafka_topic":"t","kafka_partition":3000000000},"offset":null}]`, `[{"partition":{"kafka_topic":"t","kafka_partition":1},"offset":{}}]`,
		`[{"partition":{"kafka_topic":"t","kafka_partition":1},"offset":{"kafka_offset":-2}}]`, `[{"partition":{"kafka_topic":"t","kafka_partition":1},"offset":{"kafka_offset":null}}]`,
	} {
		if got, err := parse(bad); !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v, %v", bad, got, err)
		}
	}
	shown := SinkEntries(map[TopicPartition]int64{{"b", 1}: 1, {"b", 0}: 2, {"a", 5}: 3})
	if len(shown) != 3 || shown[0].Partition["kafka_topic"] != "a" || shown[1].Offset["kafka_offset"] != int64(2) {
		t.Errorf("shown as %v", shown)
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte(`["c",{"a":1,"b":"x"}]`), []byte(`{"at":1.5}`))
	f.Add([]byte(`["c",null]`), []byte(`{"at":9223372036854775808,"n":null}`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		table := New()
		if table.Apply(Record{key, value}, 1) != nil {
			return
		}
		for _, connector := range table.Connectors() {
			for _, e := range table.Entries(connector) {
				again := New()
				for _, r := range again.Records(connector, e) {
					if err := again.Apply(r, 2); err != nil {
						t.Fatalf("%s %s: %v", r.Key, r.Value, err)
					}
				}
				if got := again.Get(connector, e.Partition); !reflect.DeepEqual(got, e.Offset) {
					t.Errorf("%v is read back as %v", e.Offset, got)
				}
			}
		}
	})
}

func TestSubmittedAllocatesNothing(t *testing.T) {
	s := NewSubmitted()
	p, offset := s.Partition(Map{"f": "a"}), json.RawMessage(`{"at":1}`)
	if n := testing.AllocsPerRun(100, func() {
		var inFlight [64]Submission
		for i := range inFlight {
			inFlight[i] = s.Submit(p, offset)
		}
		for _, id := range inFlight {
			s.Ack(id)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkSubmitted is what a record of a source costs here, with 1,000 in flight.
func BenchmarkSubmitted(b *testing.B) {
	s := NewSubmitted()
	p := s.Partition(Map{"f": "a"})
	offset := json.RawMessage(`{"at":1}`)
	b.ReportAllocs()
	var inFlight [1000]Submission
	for i := range inFlight {
		inFlight[i] = s.Submit(p, offset)
	}
	for i := 0; b.Loop(); i++ {
		s.Ack(inFlight[i%len(inFlight)])
		inFlight[i%len(inFlight)] = s.Submit(p, offset)
	}
}
