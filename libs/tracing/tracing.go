// Package tracing decides which requests are traced, and makes their spans once they have ended.
//
// While a request is served it has nothing of a trace but an identity, its SpanContext, which goes with what it asks of others.
// Only its end tells whether it is kept: because its trace is sampled, because it failed, or because it took long. So what is not
// kept costs next to nothing, and allocates nothing.
package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const instrumentation = "github.com/cauce-stream/cauce"

// Tracer makes the spans of a process. The Tracer within starts spans as OpenTelemetry does, for work that does not know its
// end: children of the span in their context, sampled as that is.
type Tracer struct {
	trace.Tracer
	sampling Sampling
	extra    budget
}

// New makes a tracer and the provider that it belongs to, which has to be shut down. The options are for processors and the
// resource: sampler and ids are New's.
func New(s Sampling, version string, options ...sdktrace.TracerProviderOption) (*Tracer, *sdktrace.TracerProvider) {
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithSampler(sampler{s}), sdktrace.WithIDGenerator(ids{}))...)
	return &Tracer{Tracer: provider.Tracer(instrumentation, trace.WithInstrumentationVersion(version)), sampling: s}, provider
}

// Begin is the identity of a span under parent, or of one that begins a trace if parent is not valid, and says whether it is
// sampled. It allocates nothing.
func (t *Tracer) Begin(parent trace.SpanContext) trace.SpanContext {
	c := trace.SpanContextConfig{SpanID: newSpanID()}
	if parent.IsValid() {
		c.TraceID, c.TraceFlags, c.TraceState = parent.TraceID(), parent.TraceFlags(), parent.TraceState()
	} else if c.TraceID = newTraceID(); t.sampling.chooses(c.TraceID) {
		c.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(c)
}

// Keeps says whether the span of a request is to be recorded, which so far took that long, waits left out that its client asked
// for.
func (t *Tracer) Keeps(own trace.SpanContext, took time.Duration, failed bool) bool {
	return own.IsSampled() || failed || t.sampling.SlowAfter >= 0 && took >= t.sampling.SlowAfter
}

// Allows is to be asked once before the span of a request is recorded that Keeps names: of those that are not sampled only so
// many a second are.
func (t *Tracer) Allows(own trace.SpanContext) bool {
	return own.IsSampled() || t.extra.take(time.Now().Unix())
}

// Record makes the span whose identity is own and which began in the past. It is ended by its End with trace.WithTimestamp. parent is
// not valid for a span that begins a trace.
func (t *Tracer) Record(own, parent trace.SpanContext, name string, began time.Time, options ...trace.SpanStartOption) trace.Span {
	ctx := context.WithValue(context.Background(), ownKey{}, own)
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	_, span := t.Start(ctx, name, append(options, trace.WithTimestamp(began))...)
	return span
}

// RecordPart makes the span of a part of what has the identity whole, from one time to the other.
func (t *Tracer) RecordPart(whole trace.SpanContext, name string, began, ended time.Time, options ...trace.SpanStartOption) {
	t.Record(t.Begin(whole), whole, name, began, options...).End(trace.WithTimestamp(ended))
}

// ownKey is where Record has the identity for the sampler and the id generator.
type ownKey struct{}

func ownOf(ctx context.Context) (trace.SpanContext, bool) {
	own, ok := ctx.Value(ownKey{}).(trace.SpanContext)
	return own, ok
}

// ids is the provider's generator of ids: random, but for recorded spans.
type ids struct{}

// NewIDs is sdktrace.IDGenerator's.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if own, ok := ownOf(ctx); ok {
		return own.TraceID(), own.SpanID()
	}
	return newTraceID(), newSpanID()
}

// NewSpanID is sdktrace.IDGenerator's.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if own, ok := ownOf(ctx); ok {
		return own.SpanID()
	}
	return newSpanID()
}

func newTraceID() (id trace.TraceID) {
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())
		binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id
}

func newSpanID() (id trace.SpanID) {
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
