package controller

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracedProposal makes the span of a request's way to what is proposed for it, from when it was queued on.
func (s *Service) tracedProposal(origin trace.SpanContext, queued time.Time, records int) {
	if s.tracer == nil || !origin.IsSampled() {
		return
	}
	_, span := s.tracer.Start(trace.ContextWithSpanContext(context.Background(), origin), "controller propose",
		trace.WithTimestamp(queued), trace.WithAttributes(attribute.Int("cauce.metadata.records", records)))
	span.End()
}

// commitSpan begins the span of a proposal at an offset, until it is committed and applied here; nil for none.
func (s *Service) commitSpan(origin trace.SpanContext, offset int64) trace.Span {
	if s.tracer == nil || !origin.IsSampled() {
		return nil
	}
	_, span := s.tracer.Start(trace.ContextWithSpanContext(context.Background(), origin), "controller commit",
		trace.WithAttributes(attribute.Int("cauce.node.id", int(s.cfg.ID)), attribute.Int64("cauce.metadata.offset", offset)))
	return span
}

func endCommit(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// identity is that of a span, not valid for nil.
func identity(span trace.Span) trace.SpanContext {
	if span == nil {
		return trace.SpanContext{}
	}
	return span.SpanContext()
}
