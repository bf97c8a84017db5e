package predicate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/golden"
)

func TestAsKafka(t *testing.T) {
	for _, c := range golden.Load(t, "testdata/predicates.jsonl") {
		t.Run(c.Name, func(t *testing.T) {
			outcome, failsAt := c.Expected()
			p, err := New(c.Class, c.Config)
			if (err != nil) != (failsAt == "configure") {
				t.Fatalf("New: error %v, Kafka: %s", err, c.Want)
			}
			if err != nil {
				return
			}
			var want bool
			if err := json.Unmarshal(outcome, &want); err != nil {
				t.Fatal(err)
			}
			if got := p(golden.Record(t, c.Record)); got != want {
				t.Errorf("%t, not %t", got, want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for _, c := range Classes() {
		if err := c.Definition.Check(); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		for _, name := range []string{c.Name, c.Name[strings.LastIndex(c.Name, ".")+1:]} {
			if found, ok := Find(name); !ok || found.Name != c.Name {
				t.Errorf("%s names %q", name, found.Name)
			}
		}
	}
	if _, err := New("Other", nil); err == nil || !strings.Contains(err.Error(), `"Other"`) {
		t.Errorf("New of an unknown class: %v", err)
	}
}
