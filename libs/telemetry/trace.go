package telemetry

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/tracing"
)

// Propagator carries trace context between processes: W3C traceparent and baggage.
func Propagator() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}

// startTracing returns nil unless the OTEL_* variables ask for an exporter. Endpoint, headers, batching and resource
// attributes are read from those variables by the SDK itself.
func startTracing(ctx context.Context, c Config, log *zap.Logger) (*tracing.Tracer, func(context.Context) error, error) {
	if !tracingWanted(os.Getenv) {
		return nil, func(context.Context) error { return nil }, nil
	}
	sampling := tracing.Sampling{Rate: c.TraceRate, SlowAfter: c.SlowRequest}
	if c.TraceRate < 0 {
		var err error
		if sampling.Rate, err = tracing.RateOf(os.Getenv); err != nil {
			return nil, nil, err
		}
	}
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, nil, err
	}
	identity, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", c.Service),
			attribute.String("service.version", c.Version),
			attribute.Int("cauce.node.id", int(c.NodeID)),
		),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("describing the process: %w", err)
	}
	// The SDK reports its faults through one handler of the whole process.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("tracing failed", zap.Error(err)) }))
	tracer, provider := tracing.New(sampling, c.Version, sdktrace.WithBatcher(exporter), sdktrace.WithResource(identity))
	return tracer, provider.Shutdown, nil
}

// tracingWanted reports whether the standard variables name an exporter or a collector.
func tracingWanted(getenv func(string) string) bool {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "":
		return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	default:
		return exporter == "otlp"
	}
}

func newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case "grpc":
		return otlptracegrpc.New(ctx)
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	}
	return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not one of grpc, http/protobuf", protocol)
}
