package sourcetask

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
)

func TestOrderAndOffsets(t *testing.T) {
	w := newWorld(t)
	s := counting("orders", 3, 5000, 100)
	r := w.start(s, nil)
	w.numbers("orders", 3, 5000, false)
	r.stop()
	for p := range 3 {
		if w.at(p) != 5000 {
			t.Errorf("partition %d is stored up to %d", p, w.at(p))
		}
	}
	if got := r.metrics; got.Polled.Load() != 15000 || got.Written.Load() != 15000 || got.Active.Load() != 0 || got.Commits.Load() == 0 || got.PollNanos.Load() == 0 {
		t.Errorf("metrics: polled %d, written %d, active %d, commits %d", got.Polled.Load(), got.Written.Load(), got.Active.Load(), got.Commits.Load())
	}
	if !slices.Equal(r.used, []string{"orders"}) {
		t.Errorf("used %q", r.used)
	}
	told := s.notes()
	if stored := len(slices.DeleteFunc(slices.Clone(told), func(s string) bool { return !strings.HasPrefix(s, "stored") })); stored != 15000 {
		t.Errorf("%d records were acknowledged", stored)
	}
	if n := len(told); told[n-1] != "stop" || told[n-2] != "commit" {
		t.Errorf("at the end the source was told %q", told[n-5:])
	}

	// The next one goes on where this one ended.
	s = counting("orders", 3, 6000, 100)
	r = w.start(s, nil)
	w.numbers("orders", 3, 6000, false)
	r.stop()
	if told := s.notes(); !slices.Contains(told, "stored 0-5001") || slices.Contains(told, "stored 0-5000") {
		t.Error("the second task has not begun at the stored offset")
	}
}

func TestAnAbandonedTaskStoresNothing(t *testing.T) {
	w := newWorld(t)
	s := counting("orders", 1, 10, 10)
	r := w.start(s, nil, "worker:offset.flush.interval.ms", "600000")
	s.await(t, "records", has("stored 0-10"))
	r.cancel()
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "abandoned") {
		t.Errorf("%v", err)
	}
	if w.writes != 0 || w.at(0) != 0 {
		t.Errorf("offset %d was stored", w.at(0))
	}
	w.start(counting("orders", 1, 10, 10), nil)
	if got := texts(w.consume("orders", 20)[0]); got[10] != "0-1" || got[19] != "0-10" {
		t.Errorf("after that: %q", got)
	}
}

func TestWhatFailsToStart(t *testing.T) {
	w := newWorld(t)
	for name, pairs := range map[string][]string{
		`transaction.boundary is "now"`:                 {"transaction.boundary", "now"},
		"topic.creation.default.partitions is required": {"topic.creation.default.replication.factor", "1"},
		"no plugins for partitioner.class":              {"producer.override.partitioner.class", "mine"},
	} {
		properties := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			properties[pairs[i]] = pairs[i+1]
		}
		if _, err := New(Config{Connector: "shop", Properties: properties, Worker: worker(t)}, Deps{Log: w.log}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
	s := counting("orders", 1, 1, 1)
	s.start = func(context.Context, *plugin.SourceContext) error { return errBroken }
	if err := w.start(s, nil).end(); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%v", err)
	}
}
