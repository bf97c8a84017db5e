package sourcetask

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
)

// BenchmarkTask is what a record of 100 bytes costs from the connector's Poll to its acknowledgement, which brokers in the same process give without
// keeping it: the connector's side, both sides of its stream, and encoding of the batches are part of it.
func BenchmarkTask(b *testing.B) {
	for name, batch := range map[string]int{"batch=10": 10, "batch=1000": 1000} {
		b.Run(name, func(b *testing.B) { benchmarkTask(b, batch, false) })
	}
	b.Run("transactions", func(b *testing.B) { benchmarkTask(b, 1000, true) })
}

func benchmarkTask(b *testing.B, size int, exactly bool) {
	opts := []kfake.Opt{}
	if !exactly {
		opts = append(opts, kfake.BlackholeProduce())
	}
	w := newWorld(b, opts...)
	w.log = zap.NewNop()
	text := fmt.Sprintf("%0100d", 1)
	left := b.N
	s := &plainSource{source: newSource(nil)}
	var part *plugin.SourcePartition
	s.start = func(ctx context.Context, c *plugin.SourceContext) (err error) {
		part, err = c.Partition(ctx, map[string]int{"p": 0})
		return err
	}
	s.poll = func(ctx context.Context) ([]plugin.SourceRecord, error) {
		if left == 0 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		records := make([]plugin.SourceRecord, min(left, size))
		for i := range records {
			records[i] = record("orders", text)
			records[i].Source = part
		}
		left -= len(records)
		records[len(records)-1].Offset = place{b.N - left}
		return records, nil
	}
	change := func(_ *Config, d *Deps) {
		d.ReadOffsets = func(_ context.Context, p []json.RawMessage) ([]json.RawMessage, error) {
			return make([]json.RawMessage, len(p)), nil
		}
		if exactly {
			d.WriteOffsets = nil
			d.ExactlyOnce = &ExactlyOnce{OffsetsTopic: offsetsTopic, RecordsFor: func(e offsets.Entry) []offsets.Record { return w.table.Records(connectorName, e) }}
		}
	}
	r := w.prepare(nil, change)
	r.deps.Start = func(ctx context.Context, t remote.Task) (*remote.SourceTask, error) {
		return client(b, s).StartSource(ctx, t)
	}
	b.ReportAllocs()
	b.ResetTimer()
	r.run()
	eventually(b, "all records", func() bool { return r.metrics.Written.Load() == int64(b.N) })
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	r.stop()
}

// plainSource is a source that does not want to know what becomes of its records.
type plainSource struct{ *source }

func (s *plainSource) NewSourceTask() plugin.SourceTask { return plainTask{s} }

type plainTask struct{ s *plainSource }

func (p plainTask) Start(ctx context.Context, c *plugin.SourceContext, _ map[string]string) error {
	return p.s.start(ctx, c)
}
func (p plainTask) Poll(ctx context.Context) ([]plugin.SourceRecord, error) { return p.s.poll(ctx) }
func (p plainTask) Stop() error                                             { return nil }
