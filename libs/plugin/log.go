package plugin

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"google.golang.org/grpc/metadata"
)

type traceKey struct{}

// withTrace keeps the W3C trace context that came with a call.
func withTrace(ctx context.Context) context.Context {
	if values := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(values) > 0 {
		return withTraceparent(ctx, values[0])
	}
	return ctx
}

func withTraceparent(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// newLogger writes lines that the host reads with their level and fields.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(traced{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})})
}

// traced adds the ids of the caller's trace to lines that are logged with a context.
type traced struct{ slog.Handler }

// Handle adds the ids and passes the line on.
func (t traced) Handle(ctx context.Context, r slog.Record) error {
	if parent, ok := ctx.Value(traceKey{}).(string); ok {
		// version-traceid-spanid-flags, see https://www.w3.org/TR/trace-context/
		if parts := strings.Split(parent, "-"); len(parts) >= 4 {
			r.AddAttrs(slog.String("trace_id", parts[1]), slog.String("span_id", parts[2]))
		}
	}
	return t.Handler.Handle(ctx, r)
}

// WithAttrs keeps the wrapping.
func (t traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{t.Handler.WithAttrs(attrs)} }

// WithGroup keeps the wrapping.
func (t traced) WithGroup(name string) slog.Handler { return traced{t.Handler.WithGroup(name)} }
