package tracing

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// maxLinks bounds the traces that work for several is linked to.
const maxLinks = 32

// Origins are the traces of those for whom one piece of work is done. It is part of one of them, the first that is sampled, and
// linked to the other ones that are. The zero value is empty.
type Origins struct {
	first  trace.SpanContext
	others []trace.Link
}

// Add notes one more, unless it is not valid.
func (o *Origins) Add(origin trace.SpanContext) {
	switch {
	case !origin.IsValid():
	case !o.first.IsSampled() && (origin.IsSampled() || !o.first.IsValid()):
		o.first = origin
	case origin.IsSampled() && !origin.Equal(o.first) && len(o.others) < maxLinks:
		o.others = append(o.others, trace.Link{SpanContext: origin})
	}
}

// Context is ctx with the parent of the work's span, if there is one.
func (o *Origins) Context(ctx context.Context) context.Context {
	if !o.first.IsValid() {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, o.first)
}

// Links are those of the work's span.
func (o *Origins) Links() trace.SpanStartOption { return trace.WithLinks(o.others...) }

// Reset empties it and keeps the memory.
func (o *Origins) Reset() {
	clear(o.others)
	*o = Origins{others: o.others[:0]}
}
