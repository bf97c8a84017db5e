package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// sink does what its test says.
type sink struct {
	context *plugin.SinkContext
	put     func(ctx context.Context, records []plugin.SinkRecord) error
	events  events
}

func (s *sink) Info() plugin.Info                { return plugin.Info{Name: "sink", Version: "1"} }
func (s *sink) Definition() configdef.Definition { return definition }
func (s *sink) NewSinkTask() plugin.SinkTask     { return s }

func (s *sink) TaskConfigs(_ context.Context, config map[string]string, _ int) ([]map[string]string, error) {
	return []map[string]string{config}, nil
}

func (s *sink) Start(_ context.Context, c *plugin.SinkContext, config map[string]string) error {
	s.context = c
	if text := config["fault"]; text != "" {
		return errors.New(text)
	}
	return nil
}

func (s *sink) Put(ctx context.Context, records []plugin.SinkRecord) error {
	return s.put(ctx, records)
}

func (s *sink) AlterOffsets(_ context.Context, _ map[string]string, offsets map[plugin.TopicPartition]int64) (bool, error) {
	s.events.add("alter %v", offsets)
	return true, nil
}

func (s *sink) Stop() error {
	s.events.add("stop")
	return nil
}

// following is a sink that has to do with partitions and offsets.
type following struct{ *sink }

func (f following) NewSinkTask() plugin.SinkTask { return f }

func (f following) Open(_ context.Context, p []plugin.TopicPartition) error {
	f.events.add("open %v", p)
	return nil
}

func (f following) Close(_ context.Context, p []plugin.TopicPartition) error {
	f.events.add("close %v", p)
	return errors.New("cannot be closed")
}

func (f following) PreCommit(_ context.Context, offsets map[plugin.TopicPartition]int64) (map[plugin.TopicPartition]int64, error) {
	f.events.add("precommit %v", offsets)
	for p := range offsets {
		offsets[p]--
	}
	return offsets, nil
}

// flushing is a sink that writes late.
type flushing struct{ *sink }

func (f flushing) NewSinkTask() plugin.SinkTask { return f }

func (f flushing) Flush(_ context.Context, offsets map[plugin.TopicPartition]int64) error {
	if len(offsets) == 0 {
		return errors.New("the disk is full")
	}
	return nil
}

var orders = plugin.TopicPartition{Topic: "orders", Partition: 2}

// put are records of a topic that transforms have given another name.
func put(values ...any) []plugin.SinkRecord {
	records := make([]plugin.SinkRecord, len(values))
	for i, v := range values {
		records[i] = plugin.SinkRecord{Original: orders,
			Record: data.Record{Topic: "routed", Partition: orders.Partition, Offset: int64(i), TimestampMs: data.NoTimestamp, Value: data.Value{V: v}}}
	}
	return records
}

func TestASinkTask(t *testing.T) {
	s := &sink{}
	task, err := connect(t, following{s}).StartSink(t.Context(), Task{Connector: "my-sink", Number: 1, Reports: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.context.Name() != "my-sink" || s.context.Task() != 1 {
		t.Errorf("started as %s, %d", s.context.Name(), s.context.Task())
	}
	if _, err := task.Open(t.Context(), []plugin.TopicPartition{orders}); err != nil {
		t.Error(err)
	}
	s.put = func(_ context.Context, records []plugin.SinkRecord) error {
		s.events.add("put %v", records[1].Value.V)
		s.context.Pause(orders, plugin.TopicPartition{Topic: "bills"})
		s.context.Resume(orders)
		s.context.Seek(orders, 1)
		s.context.NextPut(3 * time.Second)
		s.context.RequestCommit()
		return s.context.Report(&records[1], errors.New("too long"))
	}
	w, err := task.Put(t.Context(), put("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Errant) != 1 || w.Errant[0] != (Errant{orders, 1, "too long"}) || w.Seek[orders] != 1 || w.NextPut != 3*time.Second || !w.Commit ||
		len(w.Pause) != 1 || w.Pause[0].Topic != "bills" || !slices.Equal(w.Resume, []plugin.TopicPartition{orders}) {
		t.Errorf("wishes %+v", w)
	}
	offsets, w, err := task.PreCommit(t.Context(), map[plugin.TopicPartition]int64{orders: 2})
	if err != nil || !maps.Equal(offsets, map[plugin.TopicPartition]int64{orders: 1}) || w.Commit || len(w.Errant) > 0 {
		t.Errorf("offsets %v, wishes %+v, %v", offsets, w, err)
	}
	if _, err := task.Close(t.Context(), []plugin.TopicPartition{orders}); err == nil || err.Error() != "cannot be closed" {
		t.Errorf("close: %v", err)
	}
	if err := task.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	s.events.want(t, "open [{orders 2}]", "put b", "precommit map[{orders 2}:2]", "close [{orders 2}]", "stop")
	if _, err := task.Put(t.Context(), nil); err == nil {
		t.Error("a task that has stopped puts")
	}
}

func TestFaultsOfPuts(t *testing.T) {
	s := &sink{}
	task, err := connect(t, flushing{s}).StartSink(t.Context(), Task{})
	if err != nil {
		t.Fatal(err)
	}
	faults := []error{plugin.Retriable(errors.New("busy")), nil, errors.New("the table is gone")}
	for _, fault := range faults {
		s.put = func(context.Context, []plugin.SinkRecord) error { return fault }
		_, err := task.Put(t.Context(), put("a"))
		var f *Fault
		if fault == nil && err != nil || fault != nil && (!errors.As(err, &f) || f.Text != fault.Error() || f.Retriable != (f.Text == "busy")) {
			t.Errorf("%v: %v", fault, err)
		}
	}
	s.put = func(_ context.Context, records []plugin.SinkRecord) error {
		return s.context.Report(&records[0], errors.New("too long"))
	}
	if _, err := task.Put(t.Context(), put("a")); err == nil || !strings.Contains(err.Error(), "too long") || !strings.Contains(err.Error(), "tolerates") {
		t.Errorf("a report that nobody wants: %v", err)
	}
	if _, _, err := task.PreCommit(t.Context(), nil); err == nil || err.Error() != "the disk is full" {
		t.Errorf("flush: %v", err)
	}
	if offsets, _, err := task.PreCommit(t.Context(), map[plugin.TopicPartition]int64{orders: 2}); err != nil || offsets[orders] != 2 {
		t.Errorf("flush: %v, %v", offsets, err)
	}
	if err := task.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLargePutsGoInPieces(t *testing.T) {
	s := &sink{}
	task, err := connect(t, s).StartSink(t.Context(), Task{})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 3<<20)
	many := make([]any, 3*pieceRecords+1)
	for i := range many {
		many[i] = int64(i)
	}
	for _, values := range [][]any{many, {text, text, text, "last"}, {}} {
		var got []any
		s.put = func(_ context.Context, records []plugin.SinkRecord) error {
			for i := range records {
				if records[i].Topic != "routed" || records[i].Original != orders {
					return fmt.Errorf("record %d of %s was of %v", i, records[i].Topic, records[i].Original)
				}
				got = append(got, records[i].Value.V)
			}
			return nil
		}
		if _, err := task.Put(t.Context(), put(values...)); err != nil || !slices.Equal(got, values) {
			t.Errorf("%d of %d values, %v", len(got), len(values), err)
		}
	}
	// One that cannot be sent, behind some that were: the task must not take the others for a batch.
	many[len(many)-1] = struct{}{}
	if _, err := task.Put(t.Context(), put(many...)); err == nil || !strings.Contains(err.Error(), "type of no value") {
		t.Errorf("put: %v", err)
	}
	<-task.Done()
	if err := task.Stop(t.Context()); err != nil && !strings.Contains(err.Error(), "canceled") {
		t.Error(err)
	}
}

func TestASinkThatDoesNotStart(t *testing.T) {
	s := &sink{}
	c := connect(t, s)
	ended := 0
	c.Process.End = func() { ended++ }
	if _, err := c.StartSink(t.Context(), Task{Config: map[string]string{"fault": "no such host"}}); err == nil || err.Error() != "no such host" || ended != 1 {
		t.Errorf("start: %v", err)
	}
	s.events.want(t, "stop")
	if handled, err := c.AlterSinkOffsets(t.Context(), nil, map[plugin.TopicPartition]int64{orders: -1}); err != nil || !handled {
		t.Errorf("alter: %t, %v", handled, err)
	}
	s.events.want(t, "stop", "alter map[{orders 2}:-1]")
}

// TestAPutWithoutAnEnd is given up when its time is over.
func TestAPutWithoutAnEnd(t *testing.T) {
	putting := make(chan struct{})
	s := &sink{put: func(ctx context.Context, _ []plugin.SinkRecord) error {
		close(putting)
		<-ctx.Done()
		return ctx.Err()
	}}
	task, err := connect(t, s).StartSink(t.Context(), Task{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-putting
		cancel()
	}()
	if _, err := task.Put(ctx, put("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	<-task.Done()
	if task.Err() == nil {
		t.Error("the task is over without a reason")
	}
	_ = task.Stop(t.Context())
}
