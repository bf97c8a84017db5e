package telemetry

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
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
}

// Telemetry is the handle that a process passes to its parts.
type Telemetry struct {
	Log     *zap.Logger
	Level   zap.AtomicLevel // of Log; may be changed at any time
	Metrics *prometheus.Registry
	Tracer  trace.Tracer // no-op unless tracing is configured

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
	tracer, stop, err := newTracer(ctx, c, log)
	if err != nil {
		return nil, fmt.Errorf("setting up tracing: %w", err)
	}
	return &Telemetry{Log: log, Level: level, Metrics: newRegistry(c), Tracer: tracer, stopTracing: stop}, nil
}

// Close sends what is buffered, within ctx. The logger stays usable.
func (t *Telemetry) Close(ctx context.Context) error {
	err := t.stopTracing(ctx)
	_ = t.Log.Sync() // stderr cannot always be synced, and that is no fault
	return err
}
