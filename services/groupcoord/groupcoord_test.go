package groupcoord

import (
	"context"
	"io"
	"path/filepath"
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
	all := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "plugin.path": filepath.Join(t.TempDir(), "none")}
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
		{"plugin.checksums", "uniform", "plugin.checksums"},
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
	metrics := prometheus.NewRegistry()
	start := func(pairs map[string]string) (*Service, error) {
		return New(Config{NodeID: thisNode, Static: environment(t, pairs).Values}, Deps{Log: zap.NewNop(), Metrics: metrics})
	}
	taken := newMetrics(nil).assignments
	metrics.MustRegister(taken)
	if _, err := start(nil); err == nil {
		t.Fatal("a metric was registered twice")
	}
	metrics.Unregister(taken)
	for range 2 {
		s, err := start(nil)
		if err != nil {
			t.Fatal(err)
		}
		s.metrics.assigned("uniform", 0, nil)
		if families, err := metrics.Gather(); err != nil || len(families) == 0 {
			t.Fatalf("%d metrics, %v", len(families), err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if families, err := metrics.Gather(); err != nil || len(families) > 0 {
			t.Fatalf("%d metrics are left, %v", len(families), err)
		}
	}
}
