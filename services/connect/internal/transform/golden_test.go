package transform

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/golden"
)

// TestAsKafka holds every transform against what Kafka's own made of the same record.
func TestAsKafka(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	covered := map[string]bool{}
	for _, file := range files {
		for _, c := range golden.Load(t, file) {
			covered[c.Class] = true
			t.Run(c.Name, func(t *testing.T) { check(t, &c) })
		}
	}
	for _, c := range Classes() {
		if !covered[c.Name] && !strings.HasPrefix(c.Name, own) {
			t.Errorf("%s has no case", c.Name)
		}
	}
}

func check(t *testing.T, c *golden.Case) {
	outcome, failsAt := c.Expected()
	transform, err := New(c.Class, c.Config)
	if (err != nil) != (failsAt == "configure") {
		t.Fatalf("New: error %v, Kafka: %s", err, c.Want)
	}
	if err != nil {
		return
	}
	for range 2 { // with and without what it remembers
		in := golden.Record(t, c.Record)
		got, dropped, err := transform.Apply(*in)
		if (err != nil) != (failsAt == "run") {
			t.Fatalf("Apply: %v, error %v, Kafka: %s", got, err, c.Want)
		}
		if before := golden.Record(t, c.Record); !same(in, before) {
			t.Errorf("the record was changed: %s, not %s", show(in), show(before))
		}
		if failsAt != "" {
			continue
		}
		want := golden.Record(t, outcome)
		if dropped != (want == nil) {
			t.Fatalf("dropped: %t", dropped)
		}
		if dropped {
			continue
		}
		if !same(&got, want) {
			t.Errorf("%s\nnot %s", show(&got), show(want))
		}
		for _, v := range []data.Value{got.Key, got.Value} {
			if err := v.Validate(); err != nil {
				t.Errorf("what was made is not valid: %v", err)
			}
		}
	}
}

func same(a, b *data.Record) bool {
	equal := a.Topic == b.Topic && a.Partition == b.Partition && a.Offset == b.Offset && a.TimestampMs == b.TimestampMs &&
		a.Key.Equal(b.Key) && a.Value.Equal(b.Value) && len(a.Headers) == len(b.Headers)
	for i := range a.Headers {
		equal = equal && a.Headers[i].Name == b.Headers[i].Name && a.Headers[i].Value.Equal(b.Headers[i].Value)
	}
	return equal
}

func show(r *data.Record) string {
	text := r.Topic + " key " + golden.Show(r.Key) + " value " + golden.Show(r.Value)
	for _, h := range r.Headers {
		text += " header " + h.Name + " " + golden.Show(h.Value)
	}
	return text
}
