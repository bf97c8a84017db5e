package txncoord

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/libs/telemetry"
)

func environment(t *testing.T, pairs map[string]string) process.Env {
	t.Helper()
	all := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0"}
	for key, value := range pairs {
		all[key] = value
	}
	values, err := config.FromMap(configkeys.Broker(), all)
	if err != nil {
		t.Fatal(err)
	}
	tel, err := telemetry.New(t.Context(), telemetry.Config{Service: "test", LogOutput: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return process.Env{Values: values, Telemetry: tel}
}

// TestStopsWithoutAController runs the service on a bus where no controller answers, and ends it.
func TestStopsWithoutAController(t *testing.T) {
	server, err := bus.StartServer(bus.ServerConfig{Name: "test", Host: "127.0.0.1", Port: -1}, bus.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Main(ctx, environment(t, map[string]string{"bus.servers": server.URL()})); err != nil {
		t.Errorf("Main = %v", err)
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	server, err := bus.StartServer(bus.ServerConfig{Name: "test", Host: "127.0.0.1", Port: -1}, bus.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, test := range []struct{ key, value, want string }{
		{"listeners", "nowhere", "listeners"},
		{"bus.servers", "", "no server"},
	} {
		pairs := map[string]string{"bus.servers": server.URL()}
		pairs[test.key] = test.value
		if err := Main(t.Context(), environment(t, pairs)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%q: %v", test.key, test.value, err)
		}
	}
}

// TestOneServiceAfterTheOther gives a process's metrics to a second service when the first has ended, or was never made.
func TestOneServiceAfterTheOther(t *testing.T) {
	env, registry := environment(t, nil), prometheus.NewRegistry()
	for range 2 {
		s, err := New(Config{NodeID: 1, Static: env.Values}, Deps{Log: zap.NewNop(), Metrics: registry})
		if err != nil {
			t.Fatal(err)
		}
		families, err := registry.Gather()
		if err != nil || len(families) == 0 {
			t.Errorf("%d metrics, %v", len(families), err)
		}
		if _, err := New(Config{NodeID: 1, Static: env.Values}, Deps{Log: zap.NewNop(), Metrics: registry}); err == nil {
			t.Error("two services have the same metrics")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
