package sinktask

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/libs/tracing"
	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
)

// take makes the next batch of what was read.
func (r *run) take(fetches kgo.Fetches) error {
	for _, f := range fetches {
		for _, t := range f.Topics {
			for _, p := range t.Partitions {
				if err := r.takePartition(plugin.TopicPartition{Topic: t.Topic, Partition: p.Partition}, p.Records); err != nil {
					return r.interrupted(err)
				}
			}
		}
	}
	return nil
}

// interrupted drops a batch that is only half made because the task is to stop: it will be read again.
func (r *run) interrupted(err error) error {
	if r.ctx.Err() == nil && r.converting.Err() != nil && errors.Is(err, context.Canceled) {
		r.batch.reset()
		return nil
	}
	return err
}

func (r *run) takePartition(p plugin.TopicPartition, records []*kgo.Record) error {
	at := r.positions[p]
	if at == nil || len(records) == 0 {
		return nil // whoever has the partition reads it
	}
	if r.deps.Used != nil {
		r.deps.Used(p.Topic)
	}
	if at.committed == unknown {
		at.committed = records[0].Offset
	}
	r.deps.Metrics.Read.Add(int64(len(records)))
	r.batch.records = slices.Grow(r.batch.records, len(records))
	for _, consumed := range records {
		ctx, ended := r.consumeSpan(consumed)
		record, keep, err := r.pipeline.FromTopic(ctx, consumed)
		ended(err)
		if err != nil {
			return err
		}
		if !keep {
			continue
		}
		r.batch.records = append(r.batch.records, record)
		if r.reports {
			r.held.add(consumed)
		}
	}
	last := records[len(records)-1]
	r.batch.ends[p] = end{last.Offset + 1, last.LeaderEpoch}
	return nil
}

// errant takes a record that the connector cannot write. The error is the end of the task.
func (r *run) errant(e remote.Errant) error {
	consumed := r.held.find(e.TopicPartition, e.Offset)
	if consumed == nil {
		return fmt.Errorf("the connector reports record %s-%d@%d (%s), which is not among the last %d bytes of those that it may report", e.Topic, e.Partition, e.Offset, e.Fault, r.held.maxBytes)
	}
	return r.pipeline.Fail(r.ctx, pipeline.Put(consumed, errors.New(e.Fault)))
}

func endNothing(error) {}

// consumeSpan begins the span of a record whose producer has it traced.
func (r *run) consumeSpan(c *kgo.Record) (context.Context, func(error)) {
	if r.deps.Tracer == nil {
		return r.converting, endNothing
	}
	for _, h := range c.Headers {
		if h.Key != tracing.ParentHeader {
			continue
		}
		parent := tracing.ParseParent(h.Value)
		if !parent.IsSampled() {
			break
		}
		ctx, span := r.deps.Tracer.Start(trace.ContextWithRemoteSpanContext(r.converting, parent), "connect.consume", trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			attribute.String("messaging.destination.name", c.Topic), attribute.Int("messaging.destination.partition.id", int(c.Partition)), attribute.Int64("messaging.kafka.offset", c.Offset)))
		r.batch.origins.Add(span.SpanContext())
		return ctx, func(err error) { endSpan(span, err) }
	}
	return r.converting, endNothing
}

// putSpan begins the span of a batch that has records which are traced.
func (r *run) putSpan() (context.Context, func(error)) {
	ctx := r.batch.origins.Context(r.ctx)
	if r.deps.Tracer == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return r.ctx, endNothing
	}
	ctx, span := r.deps.Tracer.Start(ctx, "connect.put", r.batch.origins.Links(), trace.WithAttributes(attribute.Int("messaging.batch.message_count", len(r.batch.records))))
	return ctx, func(err error) { endSpan(span, err) }
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
