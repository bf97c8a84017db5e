package converter

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/golden"
)

// TestAsKafka holds every converter against what Kafka's own made of the same data.
func TestAsKafka(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		for _, c := range golden.Load(t, file) {
			t.Run(c.Name, func(t *testing.T) { check(t, &c) })
		}
	}
}

func check(t *testing.T, c *golden.Case) {
	want, failsAt := c.Expected()
	use := Use(c.Use)
	if use == "" {
		use = Value
	}
	converter, err := New(c.Class, use, c.Config)
	if (err != nil) != (failsAt == "configure") {
		t.Fatalf("New: error %v, Kafka: %s", err, c.Want)
	}
	if err != nil {
		return
	}
	if c.Bytes != nil {
		got, err := converter.Decode("topic", golden.Bytes(t, c.Bytes))
		if (err != nil) != (failsAt == "run") {
			t.Fatalf("Decode: %s, error %v, Kafka: %s", golden.Show(got), err, c.Want)
		}
		if failsAt == "" && !got.Equal(golden.Value(t, want)) {
			t.Errorf("%s\nnot %s", golden.Show(got), golden.Show(golden.Value(t, want)))
		}
		if err := got.Validate(); err != nil {
			t.Errorf("what was decoded is not valid: %v", err)
		}
		return
	}
	got, err := converter.Encode("topic", golden.Value(t, c.Data))
	if (err != nil) != (failsAt == "run") {
		t.Fatalf("Encode: %s, error %v, Kafka: %s", got, err, c.Want)
	}
	if failsAt != "" {
		return
	}
	expected := golden.Bytes(t, want)
	if !bytes.Equal(got, expected) && !(c.Class == jsonClass && sameObjects(got, expected)) || (got == nil) != (expected == nil) {
		t.Errorf("%s\nnot %s", got, expected)
	}
}

const jsonClass = "org.apache.kafka.connect.json.JsonConverter"

// sameObjects says whether texts are the same but for the order of members, which in Kafka's maps is that of hashes.
func sameObjects(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && len(a) == len(b) && reflect.DeepEqual(x, y)
}
