package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/record"
)

// The end of a transaction comes after what it ends and before what follows, and an owner that loads the log sees the same.
func TestAStepEndsATransaction(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		w.log.setPlan(hold(100 * time.Millisecond))
		p, q := Producer{ID: 7, Epoch: 2}, Producer{ID: 8, Epoch: 0}
		commit, abort := record.Marker{Type: record.Commit, CoordinatorEpoch: 5}, record.Marker{Type: record.Abort, CoordinatorEpoch: 6}
		for i, op := range []op{putIn(p, "a", "1"), putIn(q, "b", "2"), finish(p, commit), finish(q, abort), put("c", "3")} {
			w.do(fmt.Sprint(i), op)
		}
		time.Sleep(10 * time.Second)
		w.expect("0=1", "1=2", "2=ended", "3=ended", "4=3")
		var got []string
		w.log.mu.Lock()
		for _, b := range w.log.part(shardID).batches[1:] { // behind the fence
			m, _, err := b.Marker()
			if err != nil {
				t.Error(err)
			}
			got = append(got, fmt.Sprint(b.ProducerID(), b.ProducerEpoch(), b.IsControl(), m))
		}
		w.log.mu.Unlock()
		want := []string{"7 2 false {0 0}", "8 0 false {0 0}", "7 2 true {1 5}", "8 0 true {0 6}", "-1 -1 false {0 0}"}
		if !slices.Equal(got, want) {
			t.Errorf("batches %q, want %q", got, want)
		}
		w.own()
		w.look(func(m *kv) {
			if len(m.pending) != 0 || !maps.Equal(m.data, map[string]string{"a": "1", "c": "3"}) {
				t.Errorf("loaded %v, pending %v", m.data, m.pending)
			}
		})
	})
}

func TestARefusedMarkerIsToldTheReasonAndForgotten(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		p := Producer{ID: 7, Epoch: 2}
		w.do("write", putIn(p, "a", "1"))
		synctest.Wait()
		w.log.setPlan(func(c memCall) fault {
			if c.batch != "" && endsTransaction(record.Batch(c.batch)) {
				return fault{err: kerr.TransactionCoordinatorFenced}
			}
			return fault{}
		})
		w.do("end", finish(p, record.Marker{Type: record.Commit}))
		w.expect("write=1", "end: TRANSACTION_COORDINATOR_FENCED")
		time.Sleep(time.Minute)
		w.look(func(m *kv) {
			if len(m.data) != 0 || len(m.pending) != 1 {
				t.Errorf("loaded %v, pending %v", m.data, m.pending)
			}
		})
	})
}

func endsTransaction(b record.Batch) bool {
	_, ok, err := b.Marker()
	return ok && err == nil
}
