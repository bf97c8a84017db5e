package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/tracing"
)

// Trace is what a request's span will say, gathered while it is served. It is of bounded size and used again, as all requests have one
// and few are kept. All methods do nothing on nil, which is that of a server without a tracer. They belong to
// whoever serves the request, until the answer is given.
type Trace struct {
	r           *Request
	own, parent trace.SpanContext
	parts       [maxParts]part
	used        int
	last        int64 // when the last part ended
	waited      int64 // what the client has asked to wait
	code        int16 // of Kafka, 0 for none
	attributes  []attribute.KeyValue
	links       []trace.Link
}

// maxParts bounds the parts of a request that are told apart; maxLinks how many other traces one is linked to, and
// maxAttributes what Annotate adds.
const (
	maxParts      = 8
	maxLinks      = 32
	maxAttributes = 32
)

// part is what a request did for a while. Times are in nanoseconds after Request.Received.
type part struct {
	name     string
	from, to int64
}

// Trace is where the request's span is gathered; nil when nobody looks at spans.
func (r *Request) Trace() *Trace { return r.trace }

// SpanContext is the identity of the request's span, for what it asks of others; not valid without a tracer.
func (t *Trace) SpanContext() trace.SpanContext {
	if t == nil {
		return trace.SpanContext{}
	}
	return t.own
}

// Rootless says whether the request's header names no trace, so that Join may.
func (t *Trace) Rootless() bool { return t != nil && !t.parent.IsValid() }

// Join makes the request part of another trace, under parent. The identity changes: it is for before that has been used.
func (t *Trace) Join(parent trace.SpanContext) {
	t.parent = parent
	t.own = t.r.Conn.s.tracer.Begin(parent)
}

// Link notes a trace that the request also has to do with.
func (t *Trace) Link(sc trace.SpanContext) {
	if len(t.links) < maxLinks {
		t.links = append(t.links, trace.Link{SpanContext: sc})
	}
}

// Did notes that a part of the work ends now, which began as the one before ended.
func (t *Trace) Did(what string) {
	if t == nil {
		return
	}
	now := int64(time.Since(t.r.Received))
	from := max(t.last, t.r.started)
	t.last = now
	if t.used > 0 && (t.used == maxParts || t.parts[t.used-1].name == what) {
		t.parts[t.used-1].to = now // the last of many stands for the rest
		return
	}
	t.parts[t.used] = part{what, from, now}
	t.used++
}

// Waited is Did for a wait that the client has asked for: it does not make the request slow.
func (t *Trace) Waited(what string) {
	if t == nil {
		return
	}
	before := max(t.last, t.r.started)
	t.Did(what)
	t.waited += t.last - before
}

// Failed notes an error of Kafka that the answer tells of. The first one counts.
func (t *Trace) Failed(code int16) {
	if t != nil && t.code == 0 && isFailure(code) {
		t.code = code
	}
}

// Answers notes what an answer that is given by Finish tells of errors.
func (t *Trace) Answers(m kmsg.Response) {
	if t != nil && t.code == 0 {
		t.code = failureIn(m)
	}
}

// Kept says whether the span will be kept, by what is known so far. Only then Annotate is worth its while.
func (t *Trace) Kept() bool {
	return t != nil && t.r.Conn.s.tracer.Keeps(t.own, time.Since(t.r.Received)-time.Duration(t.waited), t.code != 0)
}

// Annotate adds to the span's attributes.
func (t *Trace) Annotate(attributes ...attribute.KeyValue) {
	if t != nil && len(t.attributes) < maxAttributes {
		t.attributes = append(t.attributes, attributes...)
	}
}

// isFailure leaves out the codes that belong to how the protocol is meant to go on.
func isFailure(code int16) bool {
	switch code {
	case 0, kerr.RebalanceInProgress.Code, kerr.MemberIDRequired.Code:
		return false
	}
	return true
}

// beginTrace gives the request its identity, as a child of the one named in its header if there is one.
func (s *Server) beginTrace(r *Request, traceParent []byte) {
	t := s.traces.Get().(*Trace)
	t.r = r
	t.parent = tracing.ParseParent(traceParent)
	t.own = s.tracer.Begin(t.parent)
	r.trace = t
}

// endTrace records the span if it is to be kept. The answer is on its way, or lost.
func (r *Request) endTrace() {
	t, s := r.trace, r.Conn.s
	if t == nil {
		return
	}
	r.trace = nil
	failed := t.code != 0 || r.failure != nil
	if s.tracer.Keeps(t.own, time.Duration(r.answered-t.waited), failed) && s.tracer.Allows(t.own) {
		t.record(failed)
	}
	if r.flags.Load()&flagAbandoned != 0 {
		return // somebody may still have it
	}
	clear(t.attributes)
	clear(t.links)
	*t = Trace{attributes: t.attributes[:0], links: t.links[:0]}
	s.traces.Put(t)
}

func (t *Trace) record(failed bool) {
	r, tracer := t.r, t.r.Conn.s.tracer
	attributes := append(t.attributes,
		attribute.String("messaging.system", "kafka"),
		attribute.String("kafka.api", r.route.name),
		attribute.Int("kafka.api.version", int(r.Version)),
		attribute.String("messaging.client.id", r.ClientID),
		attribute.String("kafka.principal", r.Conn.principal.String()),
		attribute.String("kafka.listener", r.Conn.Listener()),
		attribute.String("client.address", r.Conn.remoteHost),
	)
	if operation := operationOf(kmsg.Key(r.Key)); operation != "" {
		attributes = append(attributes, attribute.String("messaging.operation.type", operation))
	}
	if t.code != 0 {
		attributes = append(attributes, attribute.String("error.type", errorName(t.code)), attribute.Int("kafka.error.code", int(t.code)))
	}
	span := tracer.Record(t.own, t.parent, r.route.spanName, r.Received, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attributes...), trace.WithLinks(t.links...))
	switch {
	case r.failure != nil:
		span.RecordError(r.failure)
		span.SetStatus(codes.Error, "the connection was closed")
	case failed:
		span.SetStatus(codes.Error, errorName(t.code))
	}
	own := t.own.WithTraceFlags(trace.FlagsSampled) // its parts are kept with it
	for _, p := range t.parts[:t.used] {
		tracer.RecordPart(own, p.name, r.Received.Add(time.Duration(p.from)), r.Received.Add(time.Duration(p.to)))
	}
	span.End(trace.WithTimestamp(time.Now()))
}

// operationOf is what OpenTelemetry calls what the API does to messages; empty for those that have to do with none.
func operationOf(key kmsg.Key) string {
	switch key {
	case kmsg.Produce:
		return "send"
	case kmsg.Fetch:
		return "receive"
	case kmsg.OffsetCommit, kmsg.TxnOffsetCommit:
		return "settle"
	}
	return ""
}

func errorName(code int16) string {
	if err := kerr.TypedErrorForCode(code); err != nil {
		return err.Message
	}
	return "NONE"
}

// Context ends when the connection is closed. It carries the identity of the request's span if there is one.
func (r *Request) Context() context.Context {
	if r.trace != nil {
		return trace.ContextWithSpanContext(r.Conn.ctx, r.trace.own)
	}
	return r.Conn.ctx
}
