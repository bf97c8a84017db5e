// Package servertest serves the Kafka protocol in tests.
package servertest

import (
	"context"
	"net"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/tracing"
)

// Serve runs the router on a port of the loopback address until the test ends, before what was to be cleaned up earlier is. It
// adds ApiVersions when the router does not have it.
func Serve(t testing.TB, router *server.Router, log *zap.Logger) *net.TCPAddr {
	t.Helper()
	return ServeTraced(t, router, log, nil)
}

// ServeTraced is Serve with a tracer, nil for none.
func ServeTraced(t testing.TB, router *server.Router, log *zap.Logger, tracer *tracing.Tracer) *net.TCPAddr {
	t.Helper()
	key := int16(kmsg.ApiVersions)
	if !slices.ContainsFunc(router.Versions(), func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == key }) {
		router.Register(server.API{Key: key, MaxVersion: 4, Handle: func(r *server.Request) {
			resp := kmsg.NewPtrApiVersionsResponse()
			resp.ApiKeys = router.Versions()
			r.Reply(resp)
		}})
	}
	s := server.New(server.Config{ListenerName: "PLAINTEXT", Address: "127.0.0.1:0"}, server.Deps{Router: router, Log: log, Tracer: tracer})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	return s.Addr().(*net.TCPAddr)
}
