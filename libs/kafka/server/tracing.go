package server

import (
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// usableTracer returns nil for a tracer whose spans lead nowhere, so that requests need not pay for them.
func usableTracer(t trace.Tracer) trace.Tracer {
	if _, isNoop := t.(noop.Tracer); isNoop {
		return nil
	}
	return t
}

// startSpan opens the request's span, as a child of the one named in its header if there is one.
func (s *Server) startSpan(r *Request, traceParent []byte) {
	ctx := r.Conn.ctx
	if len(traceParent) > 0 {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": string(traceParent)})
	}
	r.ctx, r.span = s.tracer.Start(ctx, r.route.spanName, trace.WithSpanKind(trace.SpanKindServer))
}
