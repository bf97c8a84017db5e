package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

// build makes a batch (not of zstd, whose pooled encoders do not enter a bubble) of key, value pairs in the producer's transaction, if there is one.
func build(t testing.TB, codec record.Codec, p Producer, pairs ...string) record.Batch {
	t.Helper()
	b := record.NewBuilder()
	if p != NoProducer {
		b.SetProducer(p.ID, p.Epoch, record.NoSequence)
		b.SetTransactional()
	}
	for i := 0; i < len(pairs); i += 2 {
		b.Append(1000, []byte(pairs[i]), []byte(pairs[i+1]))
	}
	built, err := b.Build(codec, 0)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func marker(kind record.ControlType, p Producer) record.Batch {
	return record.EndTransaction(record.Marker{Type: kind}, p.ID, p.Epoch, 1000)
}

// stored puts batches into the log, of an owner before.
func (w *world) stored(batches ...record.Batch) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	for _, b := range batches {
		w.log.part(shardID).add(0, b)
	}
}

func TestLoadReplaysWhatIsCommitted(t *testing.T) {
	inWorld(t, Config{LoadBytes: 300}, func(w *world) {
		p, q, open := Producer{1, 0}, Producer{2, 3}, Producer{3, 0}
		w.stored(
			build(t, record.None, NoProducer, "gone", "1", "gone", "2"),
			build(t, record.Snappy, NoProducer, "half", "1", "a", "1", "b", "1"), // the log starts at a
			record.LeaderChange(4, 1000),
			build(t, record.Lz4, p, "a", "2"), build(t, record.None, q, "b", "2"), build(t, record.None, open, "c", "2"),
			marker(record.Commit, p), marker(record.Abort, q),
			build(t, record.Gzip, NoProducer, "long", string(bytes.Repeat([]byte("x"), 5000))),
			build(t, record.Snappy, NoProducer, "compacted", "1"),
			build(t, record.None, NoProducer, "d", "1"),
		)
		w.log.mu.Lock()
		part := w.log.part(shardID)
		part.start = 3
		part.batches = append(part.batches[1:9:9], part.batches[10:]...) // removed by retention, and by compaction
		w.log.mu.Unlock()
		w.own()
		w.look(func(m *kv) {
			want := map[string]string{"a": "2", "b": "1", "d": "1", "long": string(bytes.Repeat([]byte("x"), 5000))}
			if !maps.Equal(m.data, want) {
				t.Errorf("loaded %v", m.data)
			}
			if len(m.pending) != 1 || !maps.Equal(m.pending[open], map[string]string{"c": "2"}) {
				t.Errorf("pending %v", m.pending)
			}
		})
	})
}

// What a machine keeps of a record must not change with what is read after it.
func TestLoadedRecordsAreTheMachines(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		for i := range 100 {
			w.stored(build(t, record.Snappy, NoProducer, fmt.Sprint("key", i), fmt.Sprint("value", i)))
		}
		w.own()
		w.look(func(m *kv) {
			for i, r := range m.replays {
				if string(r.Key) != fmt.Sprint("key", i) || string(r.Value) != fmt.Sprint("value", i) || cap(r.Key) != len(r.Key) {
					t.Fatalf("record %d has become %s=%s", i, r.Key, r.Value)
				}
			}
		})
	})
}

func TestATombstoneIsNotAnEmptyValue(t *testing.T) {
	b := record.NewBuilder()
	b.Append(0, []byte("a"), nil)
	b.Append(0, []byte("b"), []byte{})
	b.Append(0, nil, []byte("c"))
	built, err := b.Build(record.None, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := newKV(0)
	if n, err := replayBatch(m, built, 0); n != 3 || err != nil {
		t.Fatalf("%d records, %v", n, err)
	}
	if r := m.replays; r[0].Value != nil || r[1].Value == nil || r[2].Key != nil || string(r[2].Value) != "c" {
		t.Errorf("replayed %q", r)
	}
}

func TestALoadThatFailsIsTriedAgain(t *testing.T) {
	damaged := build(t, record.None, NoProducer, "a", "1")
	damaged[len(damaged)-1]++
	for name, c := range map[string]struct {
		batch record.Batch
		fault fault
	}{
		"replay":     {batch: build(t, record.None, NoProducer, "poison", "1")},
		"damage":     {batch: damaged},
		"connection": {batch: build(t, record.None, NoProducer, "a", "1"), fault: fault{err: errors.New("connection reset")}},
		"start":      {batch: build(t, record.None, NoProducer, "a", "1"), fault: fault{err: kerr.OffsetOutOfRange}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Config{}, func(w *world) {
				w.stored(c.batch)
				w.log.setPlan(func(call memCall) fault {
					if call.batch == "" {
						return c.fault
					}
					return fault{}
				})
				w.own()
				w.do("read", get("a"))
				w.expect("read: COORDINATOR_LOAD_IN_PROGRESS")
				time.Sleep(10 * time.Second)
				w.do("read", get("a"))
				w.expect("read: COORDINATOR_LOAD_IN_PROGRESS")
				w.log.mu.Lock()
				attempts := len(w.log.calls)
				w.log.part(shardID).batches[0].Batch = build(t, record.None, NoProducer, "a", "2")
				w.log.mu.Unlock()
				if attempts < 10 || attempts > 100 {
					t.Errorf("%d calls in 10 s", attempts)
				}
				w.log.setPlan(nil)
				time.Sleep(2 * time.Second)
				w.do("read", get("a"))
				w.expect("read=2")
			})
		})
	}
}

// A shard that cannot be fenced, or whose log ends before the fence, is not served.
func TestLoadNeedsTheFence(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.log.setPlan(func(c memCall) fault {
			if isFence(c) {
				return fault{err: kerr.NotEnoughReplicas}
			}
			return fault{}
		})
		w.own()
		time.Sleep(time.Minute)
		w.do("read", get("a"))
		w.expect("read: COORDINATOR_LOAD_IN_PROGRESS")
		w.log.move(shardID)
		w.log.setPlan(nil)
		time.Sleep(2 * time.Second)
		w.do("read", get("a"))
		w.expect("read: NOT_COORDINATOR")

		w.stored(build(t, record.None, NoProducer, "a", "1"))
		lost := 0
		w.log.setPlan(func(c memCall) fault {
			if part := w.log.part(shardID); c.batch == "" && lost < 2 {
				lost++
				part.batches = nil // truncated after the fence was acknowledged
			}
			return fault{}
		})
		w.own()
		w.do("read", get("a"))
		w.expect("read: COORDINATOR_LOAD_IN_PROGRESS")
		time.Sleep(2 * time.Second)
		w.do("read", get("a"))
		w.expect("read=")
	})
}

// Loading takes turns: what is read at once is bounded over all shards.
func TestLoadsTakeTurns(t *testing.T) {
	inWorld(t, Config{Loads: 2}, func(w *world) {
		reads := 0
		w.log.setPlan(func(c memCall) fault {
			if c.batch == "" && c.shard >= 100 {
				reads++
				return fault{wait: time.Second}
			}
			return fault{}
		})
		for id := range int32(5) {
			w.log.mu.Lock()
			w.log.part(100+id).add(0, build(t, record.None, NoProducer, "a", "1"))
			w.log.mu.Unlock()
			w.r.Own(100+id, w.log.move(100+id))
		}
		synctest.Wait()
		w.log.mu.Lock()
		if starts := 5; reads != starts+2 {
			t.Errorf("%d reads at once", reads-starts)
		}
		w.log.mu.Unlock()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := w.r.count(); n[stateActive] != 5 {
			t.Errorf("states %v", n)
		}
	})
}
