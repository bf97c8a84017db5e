package connect

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/libs/telemetry"
)

func start(t *testing.T, pairs map[string]string) (configkeys.Values, *telemetry.Telemetry) {
	t.Helper()
	values, err := config.FromMap(configkeys.Broker(), pairs)
	if err != nil {
		t.Fatal(err)
	}
	tel, err := telemetry.New(t.Context(), telemetry.Config{Service: "test", LogOutput: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return values, tel
}

// TestStopsWithoutAController starts the service on a bus where no controller answers and ends it.
func TestStopsWithoutAController(t *testing.T) {
	server, err := bus.StartServer(bus.ServerConfig{Name: "test"}, bus.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := server.Connect("test", bus.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	values, tel := start(t, map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0"})
	s, err := New(Config{Values: values}, Deps{Bus: conn, Telemetry: tel})
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(s.Addr(), ":0") {
		t.Errorf("the address is %s", s.Addr())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	tests := []struct{ key, value, want string }{
		{"listeners", "nowhere", "listeners"},
		{"bus.servers", "", "no server"},
	}
	for _, test := range tests {
		pairs := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0"}
		pairs[test.key] = test.value
		values, tel := start(t, pairs)
		err := Main(t.Context(), process.Env{Values: values, Telemetry: tel})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%q: %v", test.key, test.value, err)
		}
	}
}
