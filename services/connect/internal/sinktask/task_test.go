package sinktask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

func TestATask(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(0, "a", "b", "c")
	started, used := make(chan struct{}), []string{}
	f.sink.start = func(config map[string]string) error {
		if config["task"] != "yes" {
			t.Errorf("started with %v", config)
		}
		return nil
	}
	d := f.deps()
	d.Running = func() { close(started) }
	d.Used = func(topic string) { used = append(used, topic) }
	r := f.runWith(f.config(), d)
	f.has("a", "b", "c")
	<-started
	if f.committed() != "" {
		t.Errorf("committed before it was time: %s", f.committed())
	}
	f.produce(0, "d")
	f.has("d")
	r.stop()
	if got := f.got(); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("put %v", got)
	}
	want := []string{"start", "open orders-0", "precommit orders-0@4", "close orders-0", "stop"}
	if got := f.seen("put"); !slices.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	if f.committed() != "0@4" || !slices.Equal(slices.Compact(used), []string{"orders"}) {
		t.Errorf("committed %s, used %v", f.committed(), used)
	}
	if f.metrics.Read.Load() != 4 || f.metrics.Sent.Load() != 4 || f.metrics.Commits.Load() != 1 || f.metrics.Partitions.Load() != 0 {
		t.Errorf("read %d, sent %d, commits %d, partitions %d", f.metrics.Read.Load(), f.metrics.Sent.Load(), f.metrics.Commits.Load(), f.metrics.Partitions.Load())
	}
}

// The group goes on where it was, by the periodic commit alone when the task before was killed.
func TestPeriodicCommit(t *testing.T) {
	f := newFixture(t, 1)
	f.worker["offset.flush.interval.ms"] = "50"
	f.produce(0, "a", "b")
	r := f.run()
	f.eventually("a commit", func() bool { return f.committed() == "0@2" })
	r.kill()
	if err := r.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("a task that was given up has ended with %v", err)
	}
	f.produce(0, "c")
	f.run()
	f.has("c")
	if got := f.got(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("put %v", got)
	}
}

// TestExtremeFlushIntervals has a worker whose offsets are flushed for ever seldom not flush them all the time, nor one whose interval is nothing.
func TestExtremeFlushIntervals(t *testing.T) {
	f := newFixture(t, 1)
	at := func(ms string) *Task {
		f.worker["offset.flush.interval.ms"], f.worker["offset.flush.timeout.ms"] = ms, "9223372036854775807"
		task, err := New(f.config(), f.deps())
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	longest := 200 * 365 * 24 * time.Hour
	if task := at("9223372036854775807"); task.flushInterval < longest || task.flushTimeout < longest {
		t.Errorf("flushes every %v, for %v at most", task.flushInterval, task.flushTimeout)
	}
	if task := at("0"); task.flushInterval < time.Millisecond {
		t.Errorf("flushes every %v", task.flushInterval)
	}
}

// What is given up is not committed.
func TestGivenUp(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(0, "a")
	r := f.run()
	f.has("a")
	r.kill()
	if err := r.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if got := f.seen("put"); f.committed() != "" || slices.Contains(got, "close orders-0") {
		t.Errorf("committed %q, asked for %v", f.committed(), got)
	}
}

func TestRetriablePut(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(0, "a", "b")
	var batches [][]string
	f.sink.put = func(c *plugin.SinkContext, records []plugin.SinkRecord) error {
		if len(records) == 0 {
			return nil
		}
		var batch []string
		for _, r := range records {
			batch = append(batch, fmt.Sprint(r.Value.V))
		}
		batches = append(batches, batch)
		if len(batches) == 1 {
			f.produce(0, "c") // not to be read before the batch is put
		}
		if len(batches) < 3 {
			c.NextPut(5 * time.Millisecond)
			return plugin.Retriable(errors.New("the database is away"))
		}
		return nil
	}
	r := f.run()
	f.has("c")
	r.stop()
	if got := fmt.Sprint(batches); got != "[[a b] [a b] [a b] [c]]" {
		t.Errorf("put %s", got)
	}
	if f.committed() != "0@3" {
		t.Errorf("committed %s", f.committed())
	}
}

// A task that waits to put again stays in its group, gives up partitions, and commits nothing of what it could not put.
func TestStopWhileRetrying(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(0, "a")
	f.sink.put = func(_ *plugin.SinkContext, records []plugin.SinkRecord) error {
		if len(records) > 0 {
			return plugin.Retriable(errors.New("the database is away"))
		}
		return nil
	}
	r := f.run()
	f.eventually("a put", func() bool { return slices.Contains(f.seen(), "put 1") })
	r.stop()
	if f.committed() != "" {
		t.Errorf("committed %s", f.committed())
	}
}

func TestFailedPut(t *testing.T) {
	f := newFixture(t, 1, "consumer.override.max.poll.records", "1")
	f.produce(0, "a", "b")
	f.sink.put = func(_ *plugin.SinkContext, records []plugin.SinkRecord) error {
		if len(records) > 0 && records[0].Value.V == "b" {
			return errors.New("no such table")
		}
		return nil
	}
	err := f.run().end()
	var fault *remote.Fault
	if !errors.As(err, &fault) || fault.Text != "no such table" {
		t.Errorf("ended with %v", err)
	}
	if f.committed() != "0@1" {
		t.Errorf("committed %q: what was put before is to be, and no more", f.committed())
	}
	if got := f.seen(); got[len(got)-1] != "stop" {
		t.Errorf("asked for %v", got)
	}
}

func TestStartFails(t *testing.T) {
	f := newFixture(t, 1)
	f.sink.start = func(map[string]string) error { return errors.New("no such database") }
	d := f.deps()
	d.Running = func() { t.Error("runs") }
	if err := f.runWith(f.config(), d).end(); err == nil || !strings.Contains(err.Error(), "no such database") {
		t.Errorf("ended with %v", err)
	}
}

func TestOpenFails(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(0, "a")
	f.sink.open = func(*plugin.SinkContext, []plugin.TopicPartition) error { return errors.New("no such disk") }
	if err := f.run().end(); err == nil || !strings.Contains(err.Error(), "no such disk") {
		t.Errorf("ended with %v", err)
	}
	if len(f.got()) != 0 {
		t.Errorf("put %v", f.got())
	}
}

// The end of the connector's process ends the task, with the process's words: while it puts, and while the task waits.
func TestProcessDies(t *testing.T) {
	for _, idle := range []bool{false, true} {
		t.Run(fmt.Sprintf("idle=%t", idle), func(t *testing.T) {
			f := newFixture(t, 1)
			f.produce(0, "a")
			f.connector.Process.Explain = func(error) error { return errors.New("killed for its memory") }
			release := make(chan struct{})
			t.Cleanup(func() { close(release) })
			f.sink.put = func(_ *plugin.SinkContext, records []plugin.SinkRecord) error {
				if len(records) > 0 && !idle {
					go f.kill()
					<-release
				}
				return nil
			}
			r := f.run()
			if idle {
				f.has("a")
				f.kill()
			}
			if err := r.end(); err == nil || !strings.Contains(err.Error(), "killed for its memory") {
				t.Errorf("ended with %v", err)
			}
			if f.committed() != "" {
				t.Errorf("committed %s", f.committed())
			}
		})
	}
}

func TestPause(t *testing.T) {
	f := newFixture(t, 1)
	f.worker["offset.flush.interval.ms"] = "20"
	var empty atomic.Int32
	f.sink.put = func(_ *plugin.SinkContext, records []plugin.SinkRecord) error {
		if len(records) == 0 {
			empty.Add(1)
		}
		return nil
	}
	f.produce(0, "a")
	r := f.run()
	f.has("a")
	r.SetPaused(true)
	f.eventually("a commit", func() bool { return f.committed() == "0@1" })
	f.produce(0, "b")
	for from, turns := empty.Load(), int32(5); empty.Load() < from+turns; {
		f.eventually("its turns go on", func() bool { return empty.Load() >= from+turns })
	}
	if got := f.got(); !slices.Equal(got, []string{"a"}) || f.metrics.Partitions.Load() != 1 {
		t.Errorf("put %v while it is paused, and has %d partitions", got, f.metrics.Partitions.Load())
	}
	r.SetPaused(false)
	f.has("b")
	r.stop()
}

// What was put is committed when a task is paused.
func TestPauseCommits(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(0, "a")
	r := f.run()
	f.has("a")
	r.SetPaused(true)
	f.eventually("a commit", func() bool { return f.committed() == "0@1" })
	r.stop()
	if got := f.seen("put"); !slices.Equal(got, []string{"start", "open orders-0", "precommit orders-0@1", "precommit orders-0@1", "close orders-0", "stop"}) {
		t.Errorf("asked for %v", got)
	}
}

func TestSeek(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(0, "a", "b", "c")
	// Where a partition begins is wished for when it is opened, and later once more.
	f.sink.open = func(c *plugin.SinkContext, partitions []plugin.TopicPartition) error {
		c.Seek(partitions[0], 1)
		return nil
	}
	var once atomic.Bool
	f.sink.put = func(c *plugin.SinkContext, records []plugin.SinkRecord) error {
		if len(records) > 0 && records[len(records)-1].Value.V == "c" && once.CompareAndSwap(false, true) {
			c.Seek(records[0].Original, 2)
		}
		return nil
	}
	r := f.run()
	f.eventually("c is put twice", func() bool { return len(f.got()) == 3 })
	r.stop()
	if got := f.got(); !slices.Equal(got, []string{"b", "c", "c"}) {
		t.Errorf("put %v", got)
	}
	if f.committed() != "0@3" {
		t.Errorf("committed %s", f.committed())
	}
}

func TestWishesOfPartitions(t *testing.T) {
	f := newFixture(t, 2)
	paused := plugin.TopicPartition{Topic: "orders", Partition: 1}
	f.sink.open = func(c *plugin.SinkContext, _ []plugin.TopicPartition) error {
		c.Pause(paused, plugin.TopicPartition{Topic: "bills"})
		return nil
	}
	f.sink.put = func(c *plugin.SinkContext, records []plugin.SinkRecord) error {
		if len(records) > 0 && records[0].Value.V == "resume" {
			c.Resume(paused)
			c.RequestCommit()
		}
		return nil
	}
	r := f.run()
	f.produce(1, "late")
	f.produce(0, "early")
	f.has("early")
	f.produce(0, "resume")
	f.has("late")
	f.eventually("a commit that was asked for", func() bool { return strings.Contains(f.committed(), "0@2") })
	r.stop()
	if got := f.got(); !slices.Equal(got, []string{"early", "resume", "late"}) {
		t.Errorf("put %v", got)
	}
}

// A connector may have itself called without records.
func TestNextPut(t *testing.T) {
	f := newFixture(t, 1)
	var empty atomic.Int32
	f.sink.put = func(c *plugin.SinkContext, records []plugin.SinkRecord) error {
		if len(records) == 0 {
			empty.Add(1)
		}
		c.NextPut(time.Millisecond)
		return nil
	}
	f.produce(0, "a")
	f.run()
	f.eventually("calls without records", func() bool { return empty.Load() > 2 })
}

// However short a connector's times are, there is time for records.
func TestShortTimes(t *testing.T) {
	f := newFixture(t, 1)
	f.worker["offset.flush.interval.ms"] = "0"
	f.sink.put = func(c *plugin.SinkContext, _ []plugin.SinkRecord) error {
		c.NextPut(time.Nanosecond)
		return nil
	}
	f.produce(0, "a")
	f.run()
	f.has("a")
	f.produce(0, "b")
	f.has("b")
	f.eventually("a commit", func() bool { return f.committed() == "0@2" })
}

func TestFailedPreCommit(t *testing.T) {
	f := newFixture(t, 1)
	f.worker["offset.flush.interval.ms"] = "30"
	var calls atomic.Int32
	f.sink.preCommit = func(_ *plugin.SinkContext, offsets map[plugin.TopicPartition]int64) (map[plugin.TopicPartition]int64, error) {
		if calls.Add(1) == 1 {
			return nil, errors.New("the disk is full")
		}
		return offsets, nil
	}
	f.produce(0, "a")
	r := f.run()
	f.eventually("a commit", func() bool { return f.committed() == "0@1" })
	r.stop()
	if got := f.got(); !slices.Equal(got, []string{"a", "a"}) {
		t.Errorf("put %v: after the failure it is to go on from what is committed", got)
	}
}

// Offsets that were not put, and those of others, are not committed whatever the connector says.
func TestWrongOffsets(t *testing.T) {
	f := newFixture(t, 2)
	f.sink.preCommit = func(_ *plugin.SinkContext, offsets map[plugin.TopicPartition]int64) (map[plugin.TopicPartition]int64, error) {
		return map[plugin.TopicPartition]int64{{Topic: "orders", Partition: 0}: 1, {Topic: "orders", Partition: 1}: 100, {Topic: "bills", Partition: 0}: 5}, nil
	}
	f.produce(0, "a", "b")
	f.produce(1, "c")
	r := f.run()
	f.has("a", "b", "c")
	r.stop()
	if f.committed() != "0@1" {
		t.Errorf("committed %s", f.committed())
	}
}

func TestNoSuchConfiguration(t *testing.T) {
	for _, test := range []struct {
		want       string
		properties []string
	}{
		{"both set", []string{"topics.regex", "x"}},
		{"nothing to read", []string{"topics", " "}},
		{"topics.regex", []string{"topics", "", "topics.regex", "("}},
		{"max.poll.records", []string{"consumer.override.max.poll.records", "0"}},
		{"group.protocol", []string{"consumer.override.group.protocol", "share"}},
		{"group.remote.assignor", []string{"consumer.override.group.remote.assignor", "mine"}},
		{"errors.tolerance", []string{"errors.tolerance", "few"}},
		{"one of the topics that the connector reads", []string{"errors.deadletterqueue.topic.name", "orders"}},
		{"one of the topics that the connector reads", []string{"topics", "", "topics.regex", "or.*", "errors.deadletterqueue.topic.name", "orders-dlq"}},
	} {
		f := newFixture(t, 1, test.properties...)
		if _, err := New(f.config(), f.deps()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v", test.properties, err)
		}
	}
}

func TestStoppedBeforeItRuns(t *testing.T) {
	f := newFixture(t, 1)
	task, err := New(f.config(), f.deps())
	if err != nil {
		t.Fatal(err)
	}
	task.Stop()
	if err := task.Run(t.Context()); err != nil || len(f.seen()) != 0 {
		t.Errorf("%v, asked for %v", err, f.seen())
	}
}

func TestClientFails(t *testing.T) {
	f := newFixture(t, 1)
	d := f.deps()
	d.Client = func(Role) ([]kgo.Opt, error) { return nil, errors.New("no such key store") }
	if err := f.runWith(f.config(), d).end(); err == nil || !strings.Contains(err.Error(), "no such key store") {
		t.Errorf("ended with %v", err)
	}
	if got := f.seen(); !slices.Equal(got, []string{"start", "stop"}) {
		t.Errorf("asked for %v", got)
	}
}
