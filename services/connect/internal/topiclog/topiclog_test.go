package topiclog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

// reading is a reader that runs, and what it has visited as "partition/offset key".
type reading struct {
	*Reader
	mu   sync.Mutex
	seen []string
	stop context.CancelFunc
	done chan error
}

func read(t *testing.T, b *brokers, committed bool) *reading {
	r := &reading{done: make(chan error, 1)}
	r.Reader = NewReader(Config{
		Topic: topicName, Bootstrap: []string{"broker-0:9092", "broker-1:9092"}, Committed: committed, MaxWait: 500 * time.Millisecond, RetryBackoff: 100 * time.Millisecond, MaxBytes: 1 << 20,
	}, b.deps(), func(one Record) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if string(one.Value) != "v-"+string(one.Key) || one.TimestampMs != 1000 {
			t.Errorf("visited %+v", one)
		}
		r.seen = append(r.seen, fmt.Sprintf("%d/%d %s", one.Partition, one.Offset, one.Key))
	})
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() { r.done <- r.Run(ctx) }()
	return r
}

func (r *reading) close(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
}

// want reads to the end and checks what was visited, each partition in order.
func (r *reading) want(t *testing.T, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.ReadToEnd(ctx); err != nil {
		t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	got := slices.Clone(r.seen)
	slices.SortStableFunc(got, func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
	if !slices.Equal(got, want) {
		t.Errorf("visited %q, not %q", got, want)
	}
}

func TestReadsToTheEndAndOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(t, 3)
		b.add(0, batch(-1, false, "a", "b"), batch(-1, false, "c"))
		b.add(1, batch(-1, false, "d"))
		r := read(t, b, false)
		r.want(t, "0/0 a", "0/1 b", "0/2 c", "1/0 d")
		began := time.Now()
		b.add(2, batch(-1, false, "e"))
		r.want(t, "0/0 a", "0/1 b", "0/2 c", "1/0 d", "2/0 e")
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("what was written is read after %v", took)
		}
		r.close(t)
	})
}

// TestBrokersWithoutNewsHoldNobodyUp has records come again and again to one broker, while the other has nothing.
func TestBrokersWithoutNewsHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(t, 2)
		r := read(t, b, false)
		r.want(t)
		began := time.Now()
		var want []string
		for i, key := range []string{"a", "b", "c"} {
			b.add(0, batch(-1, false, key))
			want = append(want, fmt.Sprintf("0/%d %s", i, key))
			r.want(t, want...)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("what was written is read after %v", took)
		}
		time.Sleep(10 * time.Second)
		r.close(t)
		if n := b.asked["*kmsg.FetchRequest"]; n > 2*20+10 {
			t.Errorf("%d fetches in 10 s of nothing new", n)
		}
	})
}

// TestEndWithoutRecords has compaction and transactions leave nothing to visit at the end.
func TestEndWithoutRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(t, 1)
		tail, err := record.AppendRewritten(nil, batch(-1, false, "b", "c", "d"), func(i int) bool { return i == 1 }, -1, 0)
		if err != nil {
			t.Fatal(err)
		}
		marker := record.EndTransaction(record.Marker{Type: record.Commit}, 5, 0, 1)
		b.add(0, record.AppendEmptied(nil, batch(-1, false, "x", "y")), batch(5, true, "a"), marker, tail, record.AppendEmptied(nil, marker))
		r := read(t, b, true)
		r.want(t, "0/2 a", "0/5 c")
		if got := r.position(0); got != b.partitions[0].end() {
			t.Errorf("the position is %d", got)
		}
		r.close(t)
	})
}

func TestTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(t, 1)
		abort, commit := record.Marker{Type: record.Abort}, record.Marker{Type: record.Commit}
		b.add(0,
			batch(1, true, "lost1"), batch(2, true, "kept1"), batch(-1, false, "plain"), batch(1, true, "lost2", "lost3"),
			record.EndTransaction(commit, 2, 0, 1), record.EndTransaction(abort, 1, 0, 1), batch(1, true, "kept2"), record.EndTransaction(commit, 1, 0, 1),
		)
		b.partitions[0].aborted = []ended{{1, 0, 6}}
		r := read(t, b, true)
		r.want(t, "0/1 kept1", "0/2 plain", "0/7 kept2")
		// An open transaction is waited for: it may be one whose commit the coordinator has decided, and the partition not heard of.
		b.add(0, batch(3, true, "open"))
		b.mu.Lock()
		b.partitions[0].stable = 9
		b.mu.Unlock()
		waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.ReadToEnd(waiting); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with an open transaction: %v", err)
		}
		b.add(0, record.EndTransaction(commit, 3, 0, 1))
		b.mu.Lock()
		b.partitions[0].stable = 11
		b.mu.Unlock()
		r.want(t, "0/1 kept1", "0/2 plain", "0/7 kept2", "0/9 open")
		r.close(t)
		all := read(t, b, false)
		all.want(t, "0/0 lost1", "0/1 kept1", "0/2 plain", "0/3 lost2", "0/4 lost3", "0/7 kept2", "0/9 open")
		all.close(t)
	})
}

func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(t, 2)
		b.add(0, batch(-1, false, "a"))
		b.down["broker-0:9092"] = true
		r := read(t, b, false)
		time.Sleep(5 * time.Second)
		b.mu.Lock()
		b.down["broker-0:9092"] = false
		b.mu.Unlock()
		r.want(t, "0/0 a")
		want := []string{"0/0 a"}
		for i, code := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.KafkaStorageError} {
			b.mu.Lock()
			b.fail = code.Code
			b.mu.Unlock()
			b.add(1, batch(-1, false, "b"))
			want = append(want, fmt.Sprintf("1/%d b", i))
			r.want(t, want...)
		}
		// A partition that someone adds is read as well.
		b.mu.Lock()
		b.partitions = append(b.partitions, &partition{})
		b.mu.Unlock()
		b.add(2, batch(-1, false, "c"))
		r.want(t, append(want, "2/0 c")...)
		r.close(t)
	})
}

func TestDeletedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(t, 1)
		b.partitions[0].start = 7
		b.add(0, batch(-1, false, "a"))
		r := read(t, b, false)
		r.want(t, "0/7 a")
		r.close(t)
	})
}

func TestDamageEndsTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(t, 1)
		damaged := batch(-1, false, "a")
		damaged[len(damaged)-1]++
		b.add(0, damaged)
		r := read(t, b, false)
		if err := <-r.done; !errors.Is(err, kerr.CorruptMessage) {
			t.Errorf("%v", err)
		}
		r.stop()
	})
}

func TestReadToEndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(t, 1)
		b.add(0, batch(-1, false, "a"))
		r := NewReader(Config{Topic: topicName, Bootstrap: []string{"broker-0:9092"}, RetryBackoff: time.Second}, b.deps(), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.ReadToEnd(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody reads: %v", err)
		}
		b.down["broker-0:9092"] = true
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.ReadToEnd(ctx); err == nil {
			t.Error("nobody answers")
		}
	})
}

func TestPartialBatchIsForTheNextFetch(t *testing.T) {
	whole := append(batch(-1, false, "a"), batch(-1, false, "b")...)
	var seen int
	position, err := follow(0, 0, whole[:len(whole)-1], nil, func(Record) { seen++ })
	if err != nil || position != 1 || seen != 1 {
		t.Errorf("position %d after %d records, %v", position, seen, err)
	}
}
