package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestASlowLogTimesOutTheAnswer(t *testing.T) {
	inWorld(t, Config{UnwritableAfter: time.Hour}, func(w *world) {
		w.own()
		w.log.setPlan(hold(8 * time.Second))
		w.do("first", put("a", "1"))
		time.Sleep(4 * time.Second)
		w.do("second", put("a", "2"))
		time.Sleep(time.Second - time.Nanosecond)
		w.expect()
		time.Sleep(time.Nanosecond)
		w.expect("first: REQUEST_TIMED_OUT")
		time.Sleep(4 * time.Second)
		w.expect("second: REQUEST_TIMED_OUT")
		time.Sleep(10 * time.Second)
		w.do("read", get("a"))
		w.expect("read=2")
		if got := w.replayed()["a"]; got != "2" {
			t.Errorf("the log says %q", got)
		}
	})
}

// BL-060: while the log is unwritable, retries must not pile up state.
func TestAnUnwritableLogRefusesOperations(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		w.do("write", put("a", "0"))
		w.told()
		w.log.setPlan(failing(kerr.NotEnoughReplicas))
		w.do("write", put("a", "1"))
		time.Sleep(3*time.Second + 1)
		for range 1000 {
			w.do("again", put("a", "2"))
			time.Sleep(time.Millisecond)
		}
		if got := w.told(); len(got) != 1000 || got[999] != "again: COORDINATOR_NOT_AVAILABLE" {
			t.Fatalf("%d answers, the last is %q", len(got), got[len(got)-1])
		}
		w.log.setPlan(nil)
		time.Sleep(2 * time.Second)
		w.expect("write=1")
		w.do("write", put("a", "3"))
		w.expect("write=3")
		w.look(func(m *kv) {
			if m.runs != 3 {
				t.Errorf("%d operations ran, want 3", m.runs)
			}
		})
	})
}

// Clients that were refused must not be timed out because they were.
func TestTicksWaitForTheLog(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		began := time.Now()
		w.look(func(m *kv) { m.tickAt = began.Add(7 * time.Second) })
		w.log.setPlan(hold(13 * time.Second)) // unwritable from second 3 on
		w.do("write", put("a", "1"))
		time.Sleep(22 * time.Second)
		w.look(func(m *kv) {
			if len(m.ticks) != 0 {
				t.Errorf("ticks at %v", m.ticks)
			}
		})
		time.Sleep(2 * time.Second)
		w.look(func(m *kv) {
			if len(m.ticks) != 1 || m.ticks[0].Sub(began) != 23*time.Second {
				t.Errorf("ticks at %v after %v, want one 10 s after the log was written at second 13", m.ticks, began)
			}
		})
	})
}

func TestTicksComeInTime(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.own()
		began := time.Now()
		w.look(func(m *kv) { m.tickAt = began.Add(time.Minute) })
		w.look(func(m *kv) { m.tickAt = began.Add(time.Second) })
		time.Sleep(time.Second)
		synctest.Wait()
		w.look(func(m *kv) { m.tickAt = began.Add(2 * time.Minute) })
		w.look(func(m *kv) { m.tickAt = began.Add(3 * time.Minute) })
		time.Sleep(time.Hour)
		synctest.Wait()
		w.look(func(m *kv) {
			if len(m.ticks) != 2 || m.ticks[0].Sub(began) != time.Second || m.ticks[1].Sub(began) != 3*time.Minute {
				t.Errorf("ticks at %v after %v", m.ticks, began)
			}
		})
	})
}

// A process that was stopped must not answer with what it knew before, when its shard has another owner by then.
func TestAStallIsFollowedByAFence(t *testing.T) {
	stop := func(w *world) { w.r.stalls.pulse.Add(-int64(stallAfter) - 1) }
	inWorld(t, Config{}, func(w *world) {
		w.own()
		w.do("write", put("a", "1"))
		w.expect("write=1")
		time.Sleep(10 * time.Second)
		w.do("read", get("a"))
		if got := w.log.fences(shardID); got != 1 {
			t.Errorf("%d fences of a process that has not stopped", got)
		}
		w.expect("read=1")

		time.Sleep(pulseEvery / 2)
		stop(w)
		w.do("read", get("a"))
		w.do("write", put("a", "2"))
		w.do("read", get("a"))
		w.expect("read=1", "write=2", "read=2")
		if got := w.log.fences(shardID); got != 2 {
			t.Errorf("%d fences after one stop", got)
		}

		w.log.move(shardID)
		stop(w)
		w.do("read", get("a"))
		w.expect("read: NOT_COORDINATOR")
	})
}
