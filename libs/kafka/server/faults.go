package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"syscall"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/telemetry"
)

// who names a connection and its request in a log line.
func (r *Request) who() []zap.Field {
	return []zap.Field{
		zap.String("api", r.route.name),
		zap.Int16("key", r.Key),
		zap.Int16("version", r.Version),
		zap.String("client", r.Conn.remoteHost),
		zap.String("clientId", r.ClientID),
	}
}

// logFailure writes the one line of a connection that ends with a request.
func (s *Server) logFailure(r *Request, err error) {
	s.metrics.failed.Inc()
	s.log.Warn("connection closed: request failed", append(r.who(), zap.Error(err), telemetry.SpanField(r.trace.SpanContext()))...)
}

// logPanic writes the one line of a connection that ends with a panic.
func (s *Server) logPanic(r *Request, cause any) {
	s.metrics.panics.Inc()
	fields := append(r.who(), zap.String("panic", fmt.Sprint(cause)), zap.ByteString("stack", debug.Stack()))
	if r.flags.Load()&flagAnswered == 0 { // else its trace may be another's by now
		fields = append(fields, telemetry.SpanField(r.trace.SpanContext()))
	}
	s.log.Error("connection closed: handler panicked", fields...)
}

// Protect runs fn, which carries on with the request, on a goroutine that is another's: a panic in it closes this request's
// connection and goes no further.
func (r *Request) Protect(fn func()) {
	defer r.recoverPanic()
	fn()
}

// logBroken notes a connection that ended in the middle of a request. That is the client's doing and common.
func (s *Server) logBroken(c *Conn, err error) {
	level := zap.DebugLevel
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		level = zap.WarnLevel
	}
	s.log.Log(level, "connection broken", zap.String("client", c.remoteHost), zap.Error(err))
}

// logWriteFault notes why answers could not be sent.
func (s *Server) logWriteFault(c *Conn, err error) {
	switch {
	case errors.Is(err, errCloseInOrder):
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.metrics.failed.Inc()
		s.log.Warn("connection closed: the client reads no answers", zap.String("client", c.remoteHost), zap.Duration("waited", s.cfg.WriteTimeout))
	case errors.Is(err, errShortFile):
		s.metrics.failed.Inc()
		s.log.Error("connection closed: a file range could not be sent", zap.String("client", c.remoteHost), zap.Error(err))
	default:
		s.log.Debug("connection closed while writing", zap.String("client", c.remoteHost), zap.Error(err))
	}
}
