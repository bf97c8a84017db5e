package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/libs/tracing"
)

// frameOf encodes a request once, to be written as often as wanted.
func frameOf(q kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, q, 1)
}

// exchange writes a frame and reads its answer into buf, without decoding it.
func (c *client) exchange(frame, buf []byte) {
	if _, err := c.conn.Write(frame); err != nil {
		c.t.Fatal(err)
	}
	head, err := c.in.Peek(4)
	if err != nil {
		c.t.Fatal(err)
	}
	left := 4 + int(binary.BigEndian.Uint32(head))
	for left > 0 {
		n, err := c.in.Read(buf[:min(left, len(buf))])
		if err != nil {
			c.t.Fatal(err)
		}
		left -= n
	}
}

func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10, 1<<20 - 1024} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			broker := startBroker(b)
			broker.createTopic("bench", 1, "segment.bytes", "1073741824", "retention.bytes", "268435456")
			c := broker.dial()
			frame := frameOf(produceRequest(9, -1, "bench", metadata.TopicID{}, 0, batch(record.None, strings.Repeat("x", size))))
			buf := make([]byte, 64<<10)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				c.exchange(frame, buf)
			}
		})
	}
}

func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{100, 16 << 10, 1<<20 - 1024} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			broker := startBroker(b)
			id := broker.createTopic("bench", 1)
			c := broker.dial()
			c.produce("bench", 0, batch(record.None, strings.Repeat("x", size)))
			q := fetchRequest(13, 0, 1, fetchPartition{"", id, 0, 0})
			q.SessionEpoch = -1
			frame := frameOf(q)
			buf := make([]byte, 64<<10)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				c.exchange(frame, buf)
			}
		})
	}
}

// BenchmarkProduceTraced is the cost of traces, which go to an exporter that drops them.
func BenchmarkProduceTraced(b *testing.B) {
	for _, bm := range []struct {
		name string
		rate float64 // negative: off
	}{{"off", -1}, {"0%", 0}, {"1%", 0.01}, {"100%", 1}} {
		b.Run(bm.name, func(b *testing.B) {
			var tracer *tracing.Tracer
			if bm.rate >= 0 {
				t, provider := tracing.New(tracing.Sampling{Rate: bm.rate, SlowAfter: time.Minute}, "1", sdktrace.WithBatcher(tracetest.NewNoopExporter()))
				tracer = t
				b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
			}
			broker := startTraced(b, tracer)
			broker.createTopic("bench", 1, "segment.bytes", "1073741824", "retention.bytes", "268435456")
			c := broker.dial()
			frame := frameOf(produceRequest(9, -1, "bench", metadata.TopicID{}, 0, batch(record.None, strings.Repeat("x", 1000))))
			buf := make([]byte, 64<<10)
			b.ReportAllocs()
			for b.Loop() {
				c.exchange(frame, buf)
			}
		})
	}
}

// TestHotPathBudgets holds what a request allocates, wherever in the process (docs/performance.md). The figures include
// the listener. A tracer that keeps none of the requests takes nothing of it.
func TestHotPathBudgets(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	t.Run("without tracer", func(t *testing.T) { hotPathBudgets(t, nil) })
	t.Run("unsampled", func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		tracer, _ := tracing.New(tracing.Sampling{Rate: 0, SlowAfter: time.Minute}, "1", sdktrace.WithSpanProcessor(spans))
		hotPathBudgets(t, tracer)
		if n := len(spans.Ended()); n > 0 {
			t.Errorf("%d spans", n)
		}
	})
}

func hotPathBudgets(t *testing.T, tracer *tracing.Tracer) {
	broker := startTraced(t, tracer)
	id := broker.createTopic("budget", 1)
	c := broker.dial()
	buf := make([]byte, 64<<10)
	produceFrame := frameOf(produceRequest(9, -1, "budget", metadata.TopicID{}, 0, batch(record.None, strings.Repeat("x", 1000))))
	c.exchange(produceFrame, buf)
	full := fetchRequest(13, 0, 1, fetchPartition{"", id, 0, 0})
	full.SessionEpoch = -1
	session := ask[*kmsg.FetchResponse](c, in(fetchRequest(13, 0, 1, fetchPartition{"", id, 0, 1}), 0, 0)).SessionID
	epoch := int32(0)
	for _, tc := range []struct {
		name   string
		budget float64
		run    func()
	}{
		{"produce", 5, func() { c.exchange(produceFrame, buf) }},
		{"full fetch", 5, func() { c.exchange(frameOf(full), buf) }},
		{"empty session fetch", 2, func() { epoch++; c.exchange(frameOf(in(fetchRequest(13, 0, 1), session, epoch)), buf) }},
	} {
		client := 0.0
		switch tc.name {
		case "full fetch":
			client = testing.AllocsPerRun(100, func() { frameOf(full) })
		case "empty session fetch":
			client = testing.AllocsPerRun(100, func() { frameOf(in(fetchRequest(13, 0, 1), session, 1)) })
		}
		if got := testing.AllocsPerRun(500, tc.run) - client; got > tc.budget {
			t.Errorf("%s: %.0f allocations, the budget is %.0f", tc.name, got, tc.budget)
		} else {
			t.Logf("%s: %.1f allocations", tc.name, got)
		}
	}
}
