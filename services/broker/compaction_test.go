package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
)

func keyedBatch(codec record.Codec, key, value string) []byte {
	b := record.NewBuilder()
	var k []byte
	if key != "" {
		k = []byte(key)
	}
	b.Append(time.Now().UnixMilli(), k, []byte(value))
	built, err := b.Build(codec, 0)
	if err != nil {
		panic(err)
	}
	return built
}

// TestCompactedTopic writes to a compacted topic while it is compacted: a consumer that begins anywhere gets to the end, and
// finds the newest value of each key.
func TestCompactedTopic(t *testing.T) {
	b := startBroker(t, "log.cleaner.backoff.ms", "100")
	b.createTopic("t", 1, "cleanup.policy", "compact", "segment.bytes", "300", "min.cleanable.dirty.ratio", "0.1", "retention.ms", "1")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { b.cleaner.Run(ctx); close(done) }()
	defer func() { stop(); <-done }()

	c := b.dial()
	refused := ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "t", metadata.TopicID{}, 0, keyedBatch(record.None, "", "no key")))
	if code := refused.Topics[0].Partitions[0].ErrorCode; code != kerr.InvalidRecord.Code {
		t.Errorf("a record without a key: error %d", code)
	}
	const records = 200
	for i := range records {
		c.produce("t", 0, keyedBatch(record.Codec(i%5), fmt.Sprintf("key %d", i%7), fmt.Sprint(i)))
	}
	p, err := b.parts.Lookup("t", metadata.TopicID{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Log()
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); l.CleanedTo() < records-10; {
		if time.Now().After(end) {
			t.Fatalf("compacted up to %d of %d", l.CleanedTo(), records)
		}
		b.readToEnd(c, "t", l.CleanedTo()/2, records)
	}
	b.logs.Retain(time.Now().Add(time.Hour).UnixMilli()) // which is not for a topic that is compacted only
	for _, from := range []int64{0, 1, 100, records - 8, records - 1} {
		got := b.readToEnd(c, "t", from, records)
		for i := max(from, records-7); i < records; i++ {
			if key := fmt.Sprintf("key %d", i%7); got[key] != fmt.Sprint(i) {
				t.Errorf("from %d: %s is %q, want %d", from, key, got[key], i)
			}
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(&cleanerCollector{b.cleaner})
	if families, err := registry.Gather(); err != nil || len(families) != 8 {
		t.Errorf("%d metrics, %v", len(families), err)
	}
}

// readToEnd consumes up to offset end, which it must reach, and returns the last value of each key.
func (b *testBroker) readToEnd(c *client, topic string, from, end int64) map[string]string {
	b.t.Helper()
	got := map[string]string{}
	for offset := from; offset < end; {
		q := fetchRequest(11, 0, 0, fetchPartition{topic: topic, offset: offset})
		q.Topics[0].Partitions[0].PartitionMaxBytes = 500
		p := ask[*kmsg.FetchResponse](c, q).Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			b.t.Fatalf("fetch at %d: error %d", offset, p.ErrorCode)
		}
		before := offset
		for rest := p.RecordBatches; len(rest) > 0; {
			var batch record.Batch
			var err error
			if batch, rest, err = record.Next(rest); errors.Is(err, io.ErrUnexpectedEOF) {
				break
			} else if err != nil {
				b.t.Fatal(err)
			}
			for r, err := range batch.Records(0) {
				if err != nil {
					b.t.Fatal(err)
				}
				got[string(r.Key)] = string(r.Value)
			}
			offset = batch.LastOffset() + 1
		}
		if offset == before {
			b.t.Fatalf("stuck at %d of %d with %d bytes", offset, end, len(p.RecordBatches))
		}
	}
	return got
}
