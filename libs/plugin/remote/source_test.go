package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
)

func TestBatchesHavePositions(t *testing.T) {
	type place struct {
		Line int `json:"line"`
	}
	s := &source{}
	var a, b *plugin.SourcePartition
	s.start = func(ctx context.Context, c *plugin.SourceContext, config map[string]string) error {
		if c.Name() != "my-source" || c.Task() != 3 || config["part"] != "x" || c.Transactions() {
			return fmt.Errorf("started as %s, %d, %v", c.Name(), c.Task(), config)
		}
		both, err := c.Partitions(ctx, map[string]string{"file": "a"}, map[string]string{"file": "b"})
		if err != nil {
			return err
		}
		a, b = both[0], both[1]
		var stored place
		if found, err := a.Offset(&stored); err != nil || !found || stored.Line != 7 {
			return fmt.Errorf("a is at %+v, %t, %v", stored, found, err)
		}
		if found, err := b.Offset(&stored); err != nil || found {
			return fmt.Errorf("b has an offset, %v", err)
		}
		return nil
	}
	s.poll = turns(func() ([]plugin.SourceRecord, error) {
		first, second, third, last := record("1"), record("2"), record("3"), record("4")
		first.Source, first.Offset = b, place{1}
		third.Source, last.Source, last.Offset = a, a, map[string]any{"line": 9, "done": true, "at": nil}
		return []plugin.SourceRecord{first, second, third, last}, nil
	})
	task, err := connect(t, s).StartSource(t.Context(), Task{Connector: "my-source", Number: 3, Config: map[string]string{"part": "x"},
		ReadOffsets: func(_ context.Context, partitions []json.RawMessage) ([]json.RawMessage, error) {
			if len(partitions) != 2 || string(partitions[0]) != `{"file":"a"}` {
				return nil, fmt.Errorf("asked for %s", partitions)
			}
			return []json.RawMessage{json.RawMessage(`{"line":7}`), nil}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := task.Poll(t.Context())
	if err != nil || len(batch.Records) != 4 || batch.First != 0 || batch.Boundary != NoBoundary {
		t.Fatalf("%+v, %v", batch, err)
	}
	for i, want := range []string{`{"file":"b"} {"line":1}`, " ", `{"file":"a"} `, `{"file":"a"} {"at":null,"done":true,"line":9}`} {
		partition, offset := batch.Position(i)
		if got := string(partition) + " " + string(offset); got != want {
			t.Errorf("record %d: %s, want %s", i, got, want)
		}
		if batch.Records[i].Value.V != fmt.Sprint(i+1) {
			t.Errorf("record %d is %v", i, batch.Records[i].Value.V)
		}
	}
	if err := task.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	s.events.want(t, "stop")
	if _, err := task.Poll(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("a task that has stopped: %v", err)
	}
}

// TestLargeBatchesComeInPieces has one poll return more records, and more bytes, than one message takes.
func TestLargeBatchesComeInPieces(t *testing.T) {
	s := &source{}
	var p *plugin.SourcePartition
	s.start = func(ctx context.Context, c *plugin.SourceContext, _ map[string]string) (err error) {
		p, err = c.Partition(ctx, struct{}{})
		return err
	}
	many := func() ([]plugin.SourceRecord, error) {
		records := make([]plugin.SourceRecord, 3*4096+1)
		for i := range records {
			records[i] = record(int64(i))
			if i > 5000 { // the first piece has no partitions, the second one has them from its middle on
				records[i].Source, records[i].Offset = p, map[string]int{"n": i}
			}
		}
		return records, nil
	}
	large := func() ([]plugin.SourceRecord, error) {
		text := strings.Repeat("x", 3<<20)
		return []plugin.SourceRecord{record(text), record(text), record(text), record("last")}, nil
	}
	s.poll = turns(many, large)
	task, err := connect(t, s).StartSource(t.Context(), Task{ReadOffsets: none})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := task.Poll(t.Context())
	if err != nil || len(batch.Records) != 3*4096+1 {
		t.Fatal(err)
	}
	for i, r := range batch.Records {
		want := ""
		if i > 5000 {
			want = fmt.Sprintf(`{"n":%d}`, i)
		}
		if _, offset := batch.Position(i); r.Value.V != int64(i) || string(offset) != want {
			t.Fatalf("record %d is %v at %s", i, r.Value.V, offset)
		}
	}
	batch, err = task.Poll(t.Context())
	if err != nil || len(batch.Records) != 4 || batch.First != 3*4096+1 || len(batch.Records[2].Value.V.(string)) != 3<<20 || batch.Records[3].Value.V != "last" {
		t.Fatalf("%d records, %v", len(batch.Records), err)
	}
	if err := task.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFaultsOfPolls(t *testing.T) {
	failing := func(err error) func() ([]plugin.SourceRecord, error) {
		return func() ([]plugin.SourceRecord, error) { return nil, err }
	}
	good := func() ([]plugin.SourceRecord, error) { return []plugin.SourceRecord{record("good")}, nil }
	empty := func() ([]plugin.SourceRecord, error) { return nil, nil }
	s := &source{}
	s.poll = turns(failing(fmt.Errorf("connecting: %w", plugin.Retriable(errors.New("refused")))), empty, good, func() ([]plugin.SourceRecord, error) { panic("lost") })
	task, err := connect(t, s).StartSource(t.Context(), Task{ReadOffsets: none})
	if err != nil {
		t.Fatal(err)
	}
	var f *Fault
	if _, err := task.Poll(t.Context()); !errors.As(err, &f) || !f.Retriable || f.Text != "connecting: refused" {
		t.Errorf("first poll: %v", err)
	}
	if batch, err := task.Poll(t.Context()); err != nil || batch.Records[0].Value.V != "good" {
		t.Errorf("second poll: %v, %v", batch, err)
	}
	if _, err := task.Poll(t.Context()); !errors.As(err, &f) || f.Retriable || f.Text != "panic: lost" || !strings.Contains(f.Trace, "TestFaultsOfPolls") {
		t.Errorf("third poll: %v", err)
	}
	if err := task.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBePolled(t *testing.T) {
	tests := map[string]func(r *plugin.SourceRecord, p *plugin.SourcePartition){
		"is the type of no value": func(r *plugin.SourceRecord, _ *plugin.SourcePartition) { r.Value.V = struct{}{} },
		"offset of record 0":      func(r *plugin.SourceRecord, p *plugin.SourcePartition) { r.Source, r.Offset = p, 7 },
		"numbers and strings is": func(r *plugin.SourceRecord, p *plugin.SourcePartition) {
			r.Source, r.Offset = p, map[string]any{"a\"{": []int{}}
		},
		"more than a message can": func(r *plugin.SourceRecord, _ *plugin.SourcePartition) {
			r.Value.V = make([]byte, plugin.MaxRequestBytes)
		},
		"unsupported type: func()": func(r *plugin.SourceRecord, p *plugin.SourcePartition) { r.Source, r.Offset = p, func() {} },
	}
	for want, spoil := range tests {
		s := &source{}
		var p *plugin.SourcePartition
		s.start = func(ctx context.Context, c *plugin.SourceContext, _ map[string]string) (err error) {
			p, err = c.Partition(ctx, map[string]string{"x": "{[\\\""})
			return err
		}
		s.poll = turns(func() ([]plugin.SourceRecord, error) {
			r := record("x")
			spoil(&r, p)
			return []plugin.SourceRecord{r}, nil
		})
		task, err := connect(t, s).StartSource(t.Context(), Task{ReadOffsets: none})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := task.Poll(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err := task.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestAcksAndCommits(t *testing.T) {
	s := &source{}
	s.poll = turns(func() ([]plugin.SourceRecord, error) {
		return []plugin.SourceRecord{record("a"), record("b"), record("c")}, nil
	}, func() ([]plugin.SourceRecord, error) { return []plugin.SourceRecord{record("d")}, nil })
	task, err := connect(t, committing{s}).StartSource(t.Context(), Task{ReadOffsets: none})
	if err != nil || !task.WantsAcks() {
		t.Fatal(err)
	}
	var first [2]uint64
	for i := range first {
		batch, err := task.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first[i] = batch.First
	}
	ack := func(number uint64, m *plugin.RecordMetadata) {
		if err := task.Acknowledge(t.Context(), []Ack{{Record: number, Stored: m}}); err != nil {
			t.Fatal(err)
		}
	}
	ack(first[1], &plugin.RecordMetadata{Topic: "orders", Partition: 1, Offset: 4})
	ack(first[0]+1, nil)
	ack(first[0]+1, nil)   // twice
	ack(first[1]+100, nil) // there is none
	if err := task.StopPolling(t.Context()); err != nil {
		t.Fatal(err)
	}
	ack(first[0], &plugin.RecordMetadata{Topic: "orders", Offset: 5})
	if err := task.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := task.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	s.events.want(t, "stored d at orders-1@4", "left out b", "stored a at orders-0@5", "commit", "stop")
}

func TestTransactions(t *testing.T) {
	s := &source{}
	var c *plugin.SourceContext
	s.start = func(_ context.Context, given *plugin.SourceContext, _ map[string]string) error {
		c = given
		return nil
	}
	s.poll = turns(func() ([]plugin.SourceRecord, error) {
		if c.Transactions() {
			c.CommitTransaction()
		}
		return []plugin.SourceRecord{record("a")}, nil
	}, func() ([]plugin.SourceRecord, error) { return []plugin.SourceRecord{record("b")}, nil }, func() ([]plugin.SourceRecord, error) {
		c.AbortTransaction()
		return nil, nil
	})
	task, err := connect(t, s).StartSource(t.Context(), Task{Transactions: true, ReadOffsets: none})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Boundary{Commit, NoBoundary, Abort} {
		if batch, err := task.Poll(t.Context()); err != nil || batch.Boundary != want || len(batch.Records) != (3-i)/2 {
			t.Errorf("batch %d: %+v, %v", i, batch, err)
		}
	}
	if err := task.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAStartThatFails(t *testing.T) {
	ended := 0
	s := &source{start: func(ctx context.Context, c *plugin.SourceContext, config map[string]string) error {
		if config["offsets"] != "" {
			_, err := c.Partition(ctx, struct{}{})
			return err
		}
		return plugin.Retriable(errors.New("no such host"))
	}}
	c := connect(t, s)
	c.Process.End = func() { ended++ }
	var f *Fault
	if _, err := c.StartSource(t.Context(), Task{}); !errors.As(err, &f) || f.Text != "no such host" {
		t.Errorf("start: %v", err)
	}
	refuse := func(context.Context, []json.RawMessage) ([]json.RawMessage, error) {
		return nil, errors.New("the offset topic is gone")
	}
	if _, err := c.StartSource(t.Context(), Task{Config: map[string]string{"offsets": "yes"}, ReadOffsets: refuse}); !errors.As(err, &f) || !strings.Contains(f.Text, "offset topic is gone") {
		t.Errorf("start: %v", err)
	}
	s.events.want(t, "stop", "stop")
	if ended != 2 {
		t.Errorf("%d processes have ended", ended)
	}
	c.Name = "other"
	if _, err := c.StartSource(t.Context(), Task{}); err == nil || !strings.Contains(err.Error(), `no plugin "other"`) {
		t.Errorf("start: %v", err)
	}
}

// TestATaskThatDoesNotStop hangs in a poll, whatever it is asked.
func TestATaskThatDoesNotStop(t *testing.T) {
	release := make(chan struct{})
	polling := make(chan struct{})
	var once sync.Once
	s := &source{poll: func(context.Context) ([]plugin.SourceRecord, error) {
		once.Do(func() { close(polling) })
		<-release
		return nil, nil
	}}
	c := connect(t, s)
	ended := false
	c.Process.End = func() { ended = true }
	task, err := c.StartSource(t.Context(), Task{ReadOffsets: none})
	if err != nil {
		t.Fatal(err)
	}
	<-polling
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := task.Poll(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("poll: %v", err)
	}
	if err := task.Stop(ctx); !errors.Is(err, context.Canceled) || !ended {
		t.Errorf("stop: %v, process ended %t", err, ended)
	}
	<-task.Done()
	close(release)
}
