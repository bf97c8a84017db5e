package telemetry

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/tracing"
)

// Config says who speaks and how.
type Config struct {
	Service   string    // e.g. "cauce-broker"; the traces' service.name unless OTEL_SERVICE_NAME is set
	Version   string    // of the program
	Commit    string    // the program was built from; may be empty
	NodeID    int32     // a field of every log line
	LogLevel  string    // debug, info, warn, error; "" is info
	LogFormat string    // auto (console on a terminal, json elsewhere), json, console; "" is auto
	LogOutput io.Writer // nil is stderr

	// TraceRate is the share of the traces beginning here that are sampled, 0 to 1; negative: as OTEL_TRACES_SAMPLER and
	// OTEL_TRACES_SAMPLER_ARG say, all without them.
	TraceRate float64
	// SlowRequest is how long a request takes that is kept whatever the rate; negative: none is for that.
	SlowRequest time.Duration
}

// Telemetry is the handle that a process passes to its parts.
type Telemetry struct {
	Log     *zap.Logger
	Level   zap.AtomicLevel // of Log; may be changed at any time
	Metrics *prometheus.Registry
	Tracer  trace.Tracer    // no-op unless tracing is configured
	Tracing *tracing.Tracer // Tracer with what it takes to trace requests; nil unless tracing is configured

	checks      checks
	stopTracing func(context.Context) error
}

// New sets up logs, metrics and tracing. It fails on an unknown log level or
// format, and when the OTEL_* variables cannot be honoured. Close ends it.
func New(ctx context.Context, c Config) (*Telemetry, error) {
	if c.LogOutput == nil {
		c.LogOutput = os.Stderr
	}
	log, level, err := newLogger(c)
	if err != nil {
		return nil, err
	}
	tracer, stop, err := startTracing(ctx, c, log)
	if err != nil {
		return nil, fmt.Errorf("setting up tracing: %w", err)
	}
	t := &Telemetry{Log: log, Level: level, Metrics: newRegistry(c), Tracer: noop.NewTracerProvider().Tracer(""), Tracing: tracer, stopTracing: stop}
	if tracer != nil {
		t.Tracer = tracer
	}
	return t, nil
}

// Close sends what is buffered, within ctx. The logger stays usable.
func (t *Telemetry) Close(ctx context.Context) error {
	err := t.stopTracing(ctx)
	_ = t.Log.Sync() // stderr cannot always be synced, and that is no fault
	return err
}
