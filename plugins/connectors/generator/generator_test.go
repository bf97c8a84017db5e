package generator

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// run reads count records of a task that starts at an offset.
func run(t *testing.T, config map[string]string, offset string, count int) []data.Record {
	t.Helper()
	connector, stop, err := kit.InProcess(Source{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	configs, err := connector.TaskConfigs(t.Context(), config, 1)
	if err != nil {
		t.Fatal(err)
	}
	task, err := connector.StartSource(t.Context(), remote.Task{Config: configs[0],
		ReadOffsets: func(context.Context, []json.RawMessage) ([]json.RawMessage, error) {
			return []json.RawMessage{json.RawMessage(offset)}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	var records []data.Record
	for len(records) < count {
		batch, err := task.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range batch.Records {
			if err := batch.Records[i].Value.Validate(); err != nil {
				t.Fatal(err)
			}
		}
		records = append(records, batch.Records...)
	}
	if err := task.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	return records
}

func TestTheSameSeedMakesTheSameRecords(t *testing.T) {
	for _, format := range []string{formatText, formatBytes, formatOrder} {
		config := map[string]string{"topic": "t", "format": format, "count": "20", "batch.size": "7", "keys": "5", "value.size": "33"}
		all := run(t, config, "", 20)
		if len(all) != 20 {
			t.Fatalf("%d records", len(all))
		}
		rest := run(t, config, `{"next":13}`, 7)
		if len(rest) != 7 {
			t.Fatalf("%d records", len(rest))
		}
		for i := range rest {
			if !rest[i].Value.Equal(all[13+i].Value) || !rest[i].Key.Equal(all[13+i].Key) {
				t.Errorf("%s: record %d is %v, was %v", format, 13+i, rest[i].Value, all[13+i].Value)
			}
		}
		if all[0].Value.Equal(all[1].Value) {
			t.Errorf("%s: two records are equal", format)
		}
		config["seed"] = "1"
		if other := run(t, config, "", 20); other[0].Value.Equal(all[0].Value) && format != formatOrder {
			t.Errorf("%s: another seed makes the same", format)
		}
	}
}

func TestSizesAndKeys(t *testing.T) {
	m := maker{format: formatText, size: 33, keys: 2}
	seen := map[any]int{}
	for i := range int64(100) {
		key, value := m.record(i)
		if len(value.V.(string)) != 33 {
			t.Fatalf("value %v", value.V)
		}
		seen[key.V]++
	}
	if len(seen) != 2 || seen["key-0"] < 20 || seen["key-1"] < 20 {
		t.Errorf("keys %v", seen)
	}
	m = maker{format: formatBytes, task: "1"}
	if key, value := m.record(0); key.V != nil || len(value.V.([]byte)) != 0 {
		t.Errorf("%v, %v", key, value)
	}
	a, b := maker{size: 20, task: "1"}, maker{size: 20, task: "2"}
	_, first := a.record(0)
	if _, second := b.record(0); first.Equal(second) {
		t.Error("two tasks make the same records")
	}
}

func TestPace(t *testing.T) {
	began := time.Unix(100, 0)
	p := pace{began: began, perSecond: 10}
	tests := []struct {
		after time.Duration
		taken int64
		due   int64
		wait  time.Duration
	}{
		{0, 0, 0, 100 * time.Millisecond},
		{150 * time.Millisecond, 0, 1, time.Microsecond},
		{150 * time.Millisecond, 1, 0, 50 * time.Millisecond},
		{2 * time.Second, 1, 19, time.Microsecond}, // what is late is made up for
		{2 * time.Second, 20, 0, 100 * time.Millisecond},
	}
	for _, test := range tests {
		p.passed = test.taken
		now := began.Add(test.after)
		if due, wait := p.due(now), p.wait(now).Round(time.Microsecond); due != test.due || wait != test.wait {
			t.Errorf("after %v and %d: %d due, wait %v", test.after, test.taken, due, wait)
		}
	}
	slow := pace{began: began, perSecond: 0.001}
	if wait := slow.wait(began); wait != time.Second {
		t.Errorf("wait %v", wait)
	}
	if free := (&pace{began: began}); free.due(began) < 1<<60 {
		t.Error("nothing is due without a rate")
	}
}

func TestTheSizeMeansNothingToOrders(t *testing.T) {
	for format, want := range map[string]int{formatText: 0, formatOrder: 1} {
		if findings, err := (Source{}).Validate(t.Context(), map[string]string{"format": format}); err != nil || len(findings) != want {
			t.Errorf("%s: %v, %v", format, findings, err)
		}
	}
}
