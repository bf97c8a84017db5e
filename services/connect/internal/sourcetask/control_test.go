package sourcetask

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// TestPause has a task that is paused before it runs poll nothing, then what was produced stored as it pauses.
func TestPause(t *testing.T) {
	w := newWorld(t)
	s := counting("orders", 1, 1_000_000, 10)
	r := w.prepare(s, nil, "worker:offset.flush.interval.ms", "600000")
	r.SetPaused(true)
	r.run()
	<-r.started
	r.SetPaused(false)
	s.await(t, "records", has("stored 0-30"))
	if w.at(0) != 0 {
		t.Errorf("stored up to %d before it pauses", w.at(0))
	}
	r.SetPaused(true)
	eventually(t, "the pause", func() bool { return w.at(0) > 0 && w.at(0) == r.metrics.Polled.Load() })
	at := w.at(0)
	r.SetPaused(true) // again: nothing happens
	r.SetPaused(false)
	eventually(t, "more records", func() bool { return r.metrics.Written.Load() > at })
	r.SetPaused(true)
	r.stop()
	if w.at(0) != r.metrics.Written.Load() {
		t.Errorf("stored up to %d of %d", w.at(0), r.metrics.Written.Load())
	}
}

// TestStopFlushes has an offset stored that no interval has stored yet, also of a task that has failed.
func TestStopFlushes(t *testing.T) {
	w := newWorld(t)
	s := counting("orders", 1, 10, 10)
	r := w.start(s, nil, "worker:offset.flush.interval.ms", "600000")
	s.await(t, "records", has("stored 0-10"))
	if r.stop(); w.at(0) != 10 || !slices.Contains(s.notes(), "commit") {
		t.Errorf("stored up to %d", w.at(0))
	}
	s = counting("orders", 1, 20, 10)
	poll := s.poll
	polls := 0
	s.poll = func(ctx context.Context) ([]plugin.SourceRecord, error) {
		if polls++; polls > 1 {
			return nil, errBroken
		}
		return poll(ctx)
	}
	r = w.start(s, nil, "worker:offset.flush.interval.ms", "600000")
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "broken") || w.at(0) != 20 {
		t.Errorf("%v, stored up to %d", err, w.at(0))
	}
}

// TestAStopDoesNotWaitForBrokers has a task end whose records nobody answers: their offsets are not stored.
func TestAStopDoesNotWaitForBrokers(t *testing.T) {
	w := newWorld(t)
	fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	s := counting("orders", 1, 100_000, 1000)
	r := w.start(s, nil, "worker:offset.flush.timeout.ms", "50")
	// More than there is room for: the task waits in the middle of a batch.
	eventually(t, "that there is no more room", func() bool { return r.metrics.Polled.Load() > maxHeldRecords })
	r.SetPaused(true)
	r.SetPaused(false)
	if err := fault.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	r.stop()
	if w.at(0) != 0 || r.metrics.Polled.Load() > maxHeldRecords+1000 {
		t.Errorf("stored up to %d, %d were polled", w.at(0), r.metrics.Polled.Load())
	}
	fault.Remove()
	w.start(counting("orders", 1, 100, 100), nil)
	w.numbers("orders", 1, 100, true)
}

// TestAnAbandonedTaskDoesNotWaitForRoom has the producer have less room than the task counts with.
func TestAnAbandonedTaskDoesNotWaitForRoom(t *testing.T) {
	w := newWorld(t)
	fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	r := w.start(counting("orders", 1, 1000, 1000), func(_ *Config, d *Deps) { d.Producer = append(d.Producer, kgo.MaxBufferedRecords(10)) })
	if err := fault.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	r.cancel()
	if err := r.end(); !errors.Is(err, context.Canceled) || w.at(0) != 0 {
		t.Errorf("%v, stored up to %d", err, w.at(0))
	}
}

// TestBrokersThatComeBack has the connections to the brokers end again and again, and requests be answered with passing errors.
func TestBrokersThatComeBack(t *testing.T) {
	for _, exactly := range []bool{false, true} {
		w := newWorld(t, kfake.NumBrokers(3))
		requests := 0
		w.cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			switch requests++; {
			case requests%4 == 1:
				return nil, errors.New("the connection is lost"), true
			case requests%4 == 2:
				return refuse(request.(*kmsg.ProduceRequest), kerr.NotLeaderForPartition), nil, true
			}
			return nil, nil, false
		})
		var change func(*Config, *Deps)
		if exactly {
			change = w.exactlyOnce
		}
		s := counting("orders", 3, 300, 50)
		r := w.start(s, change)
		w.numbers("orders", 3, 300, false)
		s.await(t, "the end", has("stored 0-300", "stored 1-300", "stored 2-300"))
		r.stop()
	}
}

// TestABrokerRestarts has the only broker go while records are produced, and come back with what it had.
func TestABrokerRestarts(t *testing.T) {
	folder := t.TempDir()
	w := newWorld(t, kfake.DataDir(folder), kfake.SyncWrites())
	s := counting("orders", 3, 3000, 10)
	r := w.start(s, nil)
	eventually(t, "some records", func() bool { return r.metrics.Written.Load() > 100 })
	_, port, err := net.SplitHostPort(w.brokers[0])
	if err != nil {
		t.Fatal(err)
	}
	w.cluster.Close()
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	if w.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(number), kfake.DataDir(folder), kfake.SyncWrites()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cluster.Close)
	s.await(t, "all records", has("stored 0-3000", "stored 1-3000", "stored 2-3000"))
	r.stop()
	w.numbers("orders", 3, 3000, true)
}

// TestTheProcessEnds has the connector's stream end while the task is paused, and while it polls. Nothing waits for the connector to stop, which might
// be quick enough to end in good order.
func TestTheProcessEnds(t *testing.T) {
	for _, paused := range []bool{false, true} {
		w := newWorld(t)
		s := newSource(turns(values("orders", "a")))
		ended := make(chan struct{})
		s.stop = func() { <-ended }
		var task *remote.SourceTask
		r := w.prepare(s, func(_ *Config, d *Deps) {
			start := d.Start
			d.Start = func(ctx context.Context, of remote.Task) (_ *remote.SourceTask, err error) {
				task, err = start(ctx, of)
				return task, err
			}
		})
		t.Cleanup(func() { close(ended) }) // before that of the connector
		r.SetPaused(paused)
		r.run()
		<-r.started
		killed, cancel := context.WithCancel(context.Background())
		cancel()
		if err := task.Stop(killed); err == nil {
			t.Error("the process has ended in good order")
		}
		if err := r.end(); err == nil || !strings.Contains(err.Error(), "the connector's task") {
			t.Errorf("paused %t: %v", paused, err)
		}
	}
}

func TestPartitionsOfTheSource(t *testing.T) {
	tr := newTracker(false, true)
	if _, err := tr.partition([]byte(`{"p":[]}`)); err == nil || !strings.Contains(err.Error(), `partition {"p":[]} of the source`) {
		t.Errorf("%v", err)
	}
	a, err := tr.partition([]byte(`{"p":1,"q":"x"}`))
	b, err2 := tr.partition([]byte(`{"q":"x","p":1}`))
	if err != nil || err2 != nil || a != b {
		t.Errorf("%d and %d are the same, %v, %v", a, b, err, err2)
	}
}

func TestBackoff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	backoff := minBackoff
	for range 20 {
		if pause(ctx, &backoff) {
			t.Error("a pause that was not waited for")
		}
	}
	if backoff != maxBackoff {
		t.Errorf("%v", backoff)
	}
	if backoff = time.Microsecond; !pause(t.Context(), &backoff) || backoff != 2*time.Microsecond {
		t.Errorf("%v", backoff)
	}
}
