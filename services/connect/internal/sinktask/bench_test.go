package sinktask

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// BenchmarkBatch takes and puts a batch of 500 records, the default of max.poll.records.
func BenchmarkBatch(b *testing.B) {
	const records = 500
	f := newFixture(b, 1)
	f.sink.put = func(*plugin.SinkContext, []plugin.SinkRecord) error { return nil }
	d := f.deps()
	d.Log = zap.NewNop()
	task, err := New(f.config(), d)
	if err != nil {
		b.Fatal(err)
	}
	started, err := f.connector.StartSink(b.Context(), remote.Task{Connector: "shop"})
	if err != nil {
		b.Fatal(err)
	}
	r := newRun(b.Context(), task, started)
	r.converting = b.Context()
	r.positions[p0] = &position{consumed: unknown, committed: unknown}
	read := make([]*kgo.Record, records)
	for i := range read {
		read[i] = &kgo.Record{Topic: "orders", Offset: int64(i), Key: []byte("key"), Value: make([]byte, 100)}
	}
	fetches := kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "orders", Partitions: []kgo.FetchPartition{{Partition: 0, Records: read}}}}}}
	b.ReportAllocs()
	for b.Loop() {
		if err := r.take(fetches); err != nil {
			b.Fatal(err)
		}
		if err := r.put(); err != nil {
			b.Fatal(err)
		}
		f.sink.mu.Lock()
		f.sink.values, f.sink.events = nil, nil
		f.sink.mu.Unlock()
	}
	b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "records/s")
	if err := started.Stop(b.Context()); err != nil {
		b.Error(err)
	}
}
