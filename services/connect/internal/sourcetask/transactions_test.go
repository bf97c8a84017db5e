package sourcetask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
)

// committed follows the offset topic up to what is committed.
func (w *world) committed() *offsets.Table {
	w.t.Helper()
	table := offsets.New()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.ConsumeTopics(offsetsTopic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	ends := map[int32]int64{}
	for _, p := range w.cluster.PartitionInfos(offsetsTopic) {
		if p.LastStableOffset > 0 {
			ends[p.Partition] = p.LastStableOffset
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for len(ends) > 0 {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("the offset topic is not read to its end: %v", ends)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= ends[r.Partition] {
				delete(ends, r.Partition)
			}
			if r.Attrs.IsControl() {
				return
			}
			if err := table.Apply(offsets.Record{Key: r.Key, Value: r.Value}, r.Timestamp.UnixMilli()); err != nil {
				w.t.Error(err)
			}
		})
	}
	return table
}

// exactlyOnce has a task use transactions.
func (w *world) exactlyOnce(c *Config, d *Deps) {
	d.WriteOffsets = nil
	d.ReadOffsets = func(ctx context.Context, partitions []json.RawMessage) ([]json.RawMessage, error) {
		table := w.committed()
		w.mu.Lock()
		w.table = table
		w.mu.Unlock()
		return w.read(ctx, partitions)
	}
	d.ExactlyOnce = &ExactlyOnce{OffsetsTopic: offsetsTopic, RecordsFor: func(e offsets.Entry) []offsets.Record {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.table.Records(connectorName, e)
	}}
}

func (w *world) committedAt(p int) int64 {
	w.t.Helper()
	n, _ := w.committed().Get(connectorName, offsets.Map{"p": int64(p)})["n"].(int64)
	return n
}

func TestTransactionsOfPolls(t *testing.T) {
	w := newWorld(t)
	s := counting("orders", 3, 1000, 100)
	r := w.start(s, w.exactlyOnce)
	w.numbers("orders", 3, 1000, false)
	s.await(t, "the last commit", has("stored 0-1000", "stored 2-1000", "commit"))
	r.stop()
	for p := range 3 {
		if n := w.committedAt(p); n != 1000 {
			t.Errorf("partition %d is stored up to %d", p, n)
		}
	}
	if m := r.metrics; m.Transactions.Load() != 10 || m.TransactionRecords.Load() != 3000 || m.TransactionMin.Load() != 300 || m.TransactionMax.Load() != 300 {
		t.Errorf("%d transactions of %d records, %d to %d", m.Transactions.Load(), m.TransactionRecords.Load(), m.TransactionMin.Load(), m.TransactionMax.Load())
	}
	w.start(counting("orders", 3, 1100, 100), w.exactlyOnce)
	w.numbers("orders", 3, 1100, false)
}

// transacting is a source that says itself where transactions end.
func transacting(polls ...func(c *plugin.SourceContext, p *plugin.SourcePartition) []plugin.SourceRecord) *source {
	s := newSource(nil)
	s.start = func(ctx context.Context, c *plugin.SourceContext) error {
		if !c.Transactions() {
			return errors.New("transactions are not for the connector to end")
		}
		p, err := c.Partition(ctx, map[string]int{"p": 0})
		var all []func() ([]plugin.SourceRecord, error)
		for _, poll := range polls {
			all = append(all, func() ([]plugin.SourceRecord, error) { return poll(c, p), nil })
		}
		s.poll = turns(all...)
		return err
	}
	return s
}

func numbered(p *plugin.SourcePartition, all ...int) []plugin.SourceRecord {
	var records []plugin.SourceRecord
	for _, n := range all {
		r := record("orders", fmt.Sprintf("0-%d", n))
		r.Partition, r.Source, r.Offset = 0, p, place{n}
		records = append(records, r)
	}
	return records
}

func TestTransactionsOfTheConnector(t *testing.T) {
	w := newWorld(t)
	written := make(chan struct{})
	s := transacting(
		func(_ *plugin.SourceContext, p *plugin.SourcePartition) []plugin.SourceRecord {
			return numbered(p, 1, 2)
		},
		func(c *plugin.SourceContext, p *plugin.SourcePartition) []plugin.SourceRecord {
			c.CommitTransaction()
			return numbered(p, 3)
		},
		func(_ *plugin.SourceContext, p *plugin.SourcePartition) []plugin.SourceRecord {
			return numbered(p, 4, 5)
		},
		func(c *plugin.SourceContext, p *plugin.SourcePartition) []plugin.SourceRecord {
			<-written // what is aborted is in the log, not on its way
			c.AbortTransaction()
			return numbered(p, 6)
		},
		func(c *plugin.SourceContext, p *plugin.SourcePartition) []plugin.SourceRecord {
			c.CommitTransaction()
			return numbered(p, 7)
		},
		func(_ *plugin.SourceContext, p *plugin.SourcePartition) []plugin.SourceRecord { return numbered(p, 8) },
	)
	r := w.start(s, w.exactlyOnce, "transaction.boundary", "Connector")
	eventually(t, "what is to be aborted", func() bool { return r.metrics.Written.Load() == 5 })
	close(written)
	s.await(t, "the commits", has("stored 0-1", "stored 0-3", "left out 0-4", "left out 0-6", "stored 0-7", "commit"))
	eventually(t, "the last record", func() bool { return r.metrics.Polled.Load() == 8 })
	if n := w.committedAt(0); n != 7 {
		t.Errorf("stored up to %d", n)
	}
	r.stop()
	if n := w.committedAt(0); n != 7 {
		t.Errorf("stored up to %d after the end: the last record was in no transaction that was to be committed", n)
	}
	w.after("orders", "0-1", "0-2", "0-3", "0-7")
}

// after appends a record to partition 0 of a topic, and checks what is there before it for those who read what is committed.
func (w *world) after(topic string, want ...string) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Value: []byte("end")}).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for count := 1; len(got) == 0 || got[len(got)-1] != "end"; count++ {
		got = texts(w.consume(topic, count)[0])
	}
	if text := strings.Join(got[:len(got)-1], " "); text != strings.Join(want, " ") {
		w.t.Errorf("%s has %q, want %q", topic, text, want)
	}
}

// TestAnIntervalEnds has a transaction end though no more records come.
func TestAnIntervalEnds(t *testing.T) {
	w := newWorld(t)
	s := counting("orders", 1, 10, 3)
	r := w.start(s, w.exactlyOnce, "transaction.boundary", "interval", "transaction.boundary.interval.ms", "300")
	s.await(t, "the records", has("stored 0-10", "commit"))
	if n := w.committedAt(0); n != 10 {
		t.Errorf("stored up to %d", n)
	}
	r.stop()
	if n := r.metrics.Transactions.Load(); n > 4 {
		t.Errorf("%d transactions", n)
	}
}

// TestLeftOutRecordsOfATransaction have their offsets stored though nothing was written.
func TestLeftOutRecordsOfATransaction(t *testing.T) {
	for _, boundary := range []string{"poll", "interval"} {
		w := newWorld(t)
		s := counting("orders", 1, 10, 10)
		r := w.start(s, w.exactlyOnce, "transaction.boundary", boundary, "transaction.boundary.interval.ms", "100",
			"transforms", "t", "transforms.t.type", "FilterByExpression", "transforms.t.condition", "false")
		s.await(t, "the records", has("left out 0-10", "commit"))
		if n := w.committedAt(0); n != 10 {
			t.Errorf("%s: stored up to %d", boundary, n)
		}
		r.stop()
	}
}

// TestACopyOfTheOffsets is written after the transaction, and not needed.
func TestACopyOfTheOffsets(t *testing.T) {
	w := newWorld(t)
	s := counting("orders", 1, 20, 10)
	w.fail = func(write int) error {
		if write == 1 {
			return errBroken
		}
		return nil
	}
	r := w.start(s, func(c *Config, d *Deps) {
		w.exactlyOnce(c, d)
		d.WriteOffsets = w.write
	})
	s.await(t, "the records", has("stored 0-20", "commit"))
	if r.stop(); w.at(0) != 20 || w.committedAt(0) != 20 {
		t.Errorf("stored up to %d, the copy up to %d", w.committedAt(0), w.at(0))
	}
}

func TestPausingCommits(t *testing.T) {
	w := newWorld(t)
	s := counting("orders", 1, 10, 10)
	r := w.start(s, w.exactlyOnce, "transaction.boundary", "interval", "transaction.boundary.interval.ms", "600000")
	eventually(t, "records", func() bool { return r.metrics.Written.Load() == 10 })
	r.SetPaused(true)
	s.await(t, "the pause", has("stored 0-10", "commit"))
	if n := w.committedAt(0); n != 10 {
		t.Errorf("stored up to %d", n)
	}
	r.SetPaused(false)
	r.stop()
}

// TestAZombieWritesNothing has a second task with the same transactional id begin while the first one goes on.
func TestAZombieWritesNothing(t *testing.T) {
	w := newWorld(t)
	hold, held := make(chan struct{}), make(chan struct{})
	s := transacting(
		func(_ *plugin.SourceContext, p *plugin.SourcePartition) []plugin.SourceRecord { return numbered(p, 1) },
		func(c *plugin.SourceContext, p *plugin.SourcePartition) []plugin.SourceRecord {
			close(held)
			<-hold
			c.CommitTransaction()
			return numbered(p, 2)
		})
	zombie := w.start(s, w.exactlyOnce, "transaction.boundary", "connector")
	<-held
	eventually(t, "the first record", func() bool { return zombie.metrics.Written.Load() == 1 })
	heir := counting("orders", 1, 5, 5)
	w.start(heir, w.exactlyOnce)
	heir.await(t, "the second task", has("stored 0-5", "commit"))
	close(hold)
	if err := zombie.end(); err == nil || !strings.Contains(err.Error(), "has taken over") {
		t.Errorf("the first task ends with %v", err)
	}
	w.after("orders", "0-1", "0-2", "0-3", "0-4", "0-5")
}

// TestAKillBetweenProduceAndCommit has records in an open transaction as the task is abandoned: the next one writes them again, once.
func TestAKillBetweenProduceAndCommit(t *testing.T) {
	w := newWorld(t)
	s := counting("orders", 1, 10, 10)
	r := w.start(s, w.exactlyOnce, "transaction.boundary", "interval", "transaction.boundary.interval.ms", "600000")
	eventually(t, "records", func() bool { return r.metrics.Written.Load() == 10 })
	r.cancel()
	if err := r.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	w.start(counting("orders", 1, 20, 10), w.exactlyOnce)
	w.numbers("orders", 1, 20, false)
}

func TestTheHooksBeforeTheFirstPoll(t *testing.T) {
	w := newWorld(t)
	for _, hook := range []string{"init", "first"} {
		started := false
		s := newSource(turns())
		s.start = func(context.Context, *plugin.SourceContext) error {
			started = true
			return nil
		}
		r := w.start(s, func(c *Config, d *Deps) {
			w.exactlyOnce(c, d)
			refuse := func(context.Context) error { return errBroken }
			if hook == "init" {
				d.ExactlyOnce.BeforeInit = refuse
			} else {
				d.ExactlyOnce.BeforeFirst = refuse
			}
		})
		if err := r.end(); !errors.Is(err, errBroken) || started {
			t.Errorf("%s: %v, started %t", hook, err, started)
		}
	}
}

// TestATransactionThatCannotBeWritten commits nothing, whatever is tolerated.
func TestATransactionThatCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	s := transacting(
		func(_ *plugin.SourceContext, p *plugin.SourcePartition) []plugin.SourceRecord { return numbered(p, 1) },
		func(c *plugin.SourceContext, p *plugin.SourcePartition) []plugin.SourceRecord {
			c.CommitTransaction()
			records := numbered(p, 2, 3)
			records[0].Partition = 99
			return records
		})
	r := w.start(s, w.exactlyOnce, "transaction.boundary", "connector", "errors.tolerance", "all")
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "KAFKA_PRODUCE") {
		t.Errorf("%v", err)
	}
	if n := w.committedAt(0); n != 0 {
		t.Errorf("stored up to %d", n)
	}
	w.after("orders")

	s = transacting(func(c *plugin.SourceContext, p *plugin.SourcePartition) []plugin.SourceRecord {
		c.CommitTransaction()
		records := numbered(p, 1)
		records[0].Topic = offsetsTopic
		return records
	})
	r = w.start(s, w.exactlyOnce, "transaction.boundary", "connector")
	if err := r.end(); err == nil || !strings.Contains(err.Error(), `record for "connect-offsets"`) {
		t.Errorf("%v", err)
	}
}

// TestACommitThatIsRefused fails the task, and its offsets are not stored.
func TestACommitThatIsRefused(t *testing.T) {
	w := newWorld(t)
	w.cluster.ControlKey(int16(kmsg.EndTxn), func(request kmsg.Request) (kmsg.Response, error, bool) {
		response := request.ResponseKind().(*kmsg.EndTxnResponse)
		response.ErrorCode = kerr.InvalidTxnState.Code
		return response, nil, true
	})
	r := w.start(counting("orders", 1, 10, 10), w.exactlyOnce)
	if err := r.end(); !errors.Is(err, kerr.InvalidTxnState) {
		t.Errorf("%v", err)
	}
	w.start(counting("orders", 1, 20, 10), w.exactlyOnce)
	w.numbers("orders", 1, 20, false)
}
