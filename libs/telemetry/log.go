package telemetry

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func newLogger(c Config) (*zap.Logger, zap.AtomicLevel, error) {
	level := zap.NewAtomicLevel()
	if c.LogLevel != "" {
		parsed, err := zapcore.ParseLevel(c.LogLevel)
		if err != nil {
			return nil, level, fmt.Errorf("log level: %w", err)
		}
		level.SetLevel(parsed)
	}
	encoder, err := newEncoder(c)
	if err != nil {
		return nil, level, err
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(c.LogOutput)), level)
	fields := zap.Fields(zap.String("service", c.Service), zap.Int32("node", c.NodeID))
	return zap.New(core, fields, zap.ErrorOutput(zapcore.Lock(os.Stderr))), level, nil
}

func newEncoder(c Config) (zapcore.Encoder, error) {
	e := zapcore.EncoderConfig{
		TimeKey: "ts", LevelKey: "level", NameKey: "logger", MessageKey: "msg", StacktraceKey: "stack",
		EncodeTime: encodeTime, EncodeLevel: zapcore.LowercaseLevelEncoder, EncodeDuration: zapcore.StringDurationEncoder,
		EncodeName: zapcore.FullNameEncoder, ConsoleSeparator: "  ",
	}
	switch c.LogFormat {
	case "json":
		return zapcore.NewJSONEncoder(e), nil
	case "", "auto":
		if !isTerminal(c.LogOutput) {
			return zapcore.NewJSONEncoder(e), nil
		}
		e.EncodeLevel = zapcore.CapitalColorLevelEncoder
	case "console":
		e.EncodeLevel = zapcore.CapitalLevelEncoder
	default:
		return nil, fmt.Errorf("log format %q is not one of auto, json, console", c.LogFormat)
	}
	e.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
	return zapcore.NewConsoleEncoder(e), nil
}

func encodeTime(t time.Time, e zapcore.PrimitiveArrayEncoder) {
	e.AppendString(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// TraceField is the field that ties a log line to the trace of ctx: trace_id and
// span_id, or nothing outside of a trace.
func TraceField(ctx context.Context) zap.Field { return SpanField(trace.SpanContextFromContext(ctx)) }

// SpanField is TraceField for a span that is known by its identity.
func SpanField(span trace.SpanContext) zap.Field {
	if !span.IsValid() {
		return zap.Skip()
	}
	return zap.Inline(spanIDs(span))
}

type spanIDs trace.SpanContext

// MarshalLogObject adds the ids to a log line.
func (s spanIDs) MarshalLogObject(e zapcore.ObjectEncoder) error {
	e.AddString("trace_id", trace.SpanContext(s).TraceID().String())
	e.AddString("span_id", trace.SpanContext(s).SpanID().String())
	return nil
}
