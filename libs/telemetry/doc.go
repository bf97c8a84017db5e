// Package telemetry is what a process says about itself: structured logs that
// carry trace ids, an OpenTelemetry tracer, Prometheus metrics, and the admin
// HTTP server that serves health, metrics, profiles and the log level.
//
// Tracing is off, and costs nothing, until the standard OTEL_* environment
// variables name a collector.
package telemetry
