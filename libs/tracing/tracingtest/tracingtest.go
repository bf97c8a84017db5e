// Package tracingtest keeps spans for tests to look at.
package tracingtest

import (
	"context"
	"slices"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/cauce-stream/cauce/libs/tracing"
)

// Spans are those that have ended.
type Spans struct {
	mu      sync.Mutex
	ended   []sdktrace.ReadOnlySpan
	changed chan struct{} // closed and replaced with each span
}

// New is a tracer and the spans that end of it.
func New(s tracing.Sampling) (*tracing.Tracer, *Spans) {
	spans := &Spans{changed: make(chan struct{})}
	tracer, _ := tracing.New(s, "1", sdktrace.WithSpanProcessor(spans))
	return tracer, spans
}

// Until gives the spans until now, and a channel that is closed when there are more.
func (s *Spans) Until() ([]sdktrace.ReadOnlySpan, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.ended), s.changed
}

// OnEnd is SpanProcessor's.
func (s *Spans) OnEnd(span sdktrace.ReadOnlySpan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, span)
	close(s.changed)
	s.changed = make(chan struct{})
}

// OnStart is SpanProcessor's, and does nothing.
func (s *Spans) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// Shutdown is SpanProcessor's, and does nothing.
func (s *Spans) Shutdown(context.Context) error { return nil }

// ForceFlush is SpanProcessor's, and does nothing.
func (s *Spans) ForceFlush(context.Context) error { return nil }
