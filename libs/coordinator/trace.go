package coordinator

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/tracing"
)

// origins are the traces that a batch belongs to. Its append is part of one of them and linked to the others; in each, the wait for the
// append is linked back to it.
type origins struct {
	tracing.Origins
	carrier trace.SpanContext // the span of the append, for the shard's goroutine alone
}

// span begins a span when somebody looks at spans; else it is nil.
func (s *shard[M]) span(ctx context.Context, what string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if s.r.tracer == nil {
		return ctx, nil
	}
	return s.r.tracer.Start(ctx, s.r.cfg.Name+" shard "+what, append(options, trace.WithAttributes(
		attribute.Int("cauce.shard", int(s.id)), attribute.Int("cauce.shard.epoch", int(s.epoch))))...)
}

func end(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// appendSpan begins the span of an append, which goes to the brokers in the context.
func (s *shard[M]) appendSpan(ctx context.Context, from *origins) (context.Context, trace.Span) {
	if s.r.tracer == nil {
		return ctx, nil
	}
	ctx, span := s.span(from.Context(ctx), "append", from.Links())
	from.carrier = span.SpanContext()
	return ctx, span
}

// handled makes the span of an operation that began at that time and has run.
func (s *shard[M]) handled(origin trace.SpanContext, began time.Time) {
	if s.r.tracer == nil || !origin.IsSampled() {
		return
	}
	_, span := s.span(trace.ContextWithSpanContext(context.Background(), origin), "handle", trace.WithTimestamp(began))
	end(span, nil)
}

// waits begins the span of an answer's wait for the log, nil for none. mu is held.
func (s *shard[M]) waits(origin trace.SpanContext, now time.Time) trace.Span {
	if s.r.tracer == nil || !origin.IsSampled() || s.position <= s.committed {
		return nil
	}
	_, span := s.span(trace.ContextWithSpanContext(context.Background(), origin), "commit", trace.WithTimestamp(now))
	return span
}

// committedBy ends the wait for the batch that was committed last. mu is held.
func (s *shard[M]) committedBy(wait trace.Span) {
	if wait == nil {
		return
	}
	if s.carrier.IsSampled() {
		wait.AddLink(trace.Link{SpanContext: s.carrier})
	}
	wait.End()
}
