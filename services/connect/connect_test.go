package connect

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

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

// TestStopsWithoutAController starts the service on a bus where no controller answers, hears from its REST interface that it starts, and ends it.
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
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	values, tel := start(t, map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "connect.listeners": url})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	own, err := readSettings(values)
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- runNode(ctx, process.Env{Values: values, Telemetry: tel}, own, conn) }()
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get(url + "/health")
	for errors.Is(err, syscall.ECONNREFUSED) && len(ended) == 0 { // not bound yet
		runtime.Gosched()
		answer, err = client.Get(url + "/health")
	}
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), `"starting"`) {
		t.Errorf("health: %s %s", answer.Status, body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run = %v", err)
	}
}

// TestNamedCluster has a worker that is told where its cluster is be ready without a bus, controllers or a port for Kafka clients.
func TestNamedCluster(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	file := filepath.Join(t.TempDir(), "worker.properties")
	text := "bootstrap.servers=" + cluster.ListenAddrs()[0] + "\nconfig.storage.replication.factor=1\noffset.storage.replication.factor=1\nstatus.storage.replication.factor=1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	values, tel := start(t, map[string]string{"bus.servers": "", "listeners": "PLAINTEXT://192.0.2.1:1", "connect.listeners": "http://127.0.0.1:0", "connect.config": file})
	admin := telemetry.NewAdmin("127.0.0.1:0", tel)
	if err := admin.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- admin.Run(ctx) }()
	go func() { ended <- Main(ctx, process.Env{Values: values, Telemetry: tel, Admin: admin}) }()
	client := http.Client{Timeout: 10 * time.Second}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(time.Minute); ; {
		answer, err := client.Get("http://" + admin.Addr() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode == http.StatusOK {
			break
		}
		if strings.Contains(string(body), "node") {
			t.Fatalf("it waits for its node: %s", body)
		}
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		case <-deadline:
			t.Fatalf("it is not ready: %s", body)
		case <-ticker.C:
		}
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestBadSettingsAreRefused(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "worker.properties")
	if err := os.WriteFile(broken, []byte("offset.flush.interval.ms=soon\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ key, value, want string }{
		{"listeners", "nowhere", "listeners"},
		{"bus.servers", "", "no server"},
		{"connect.listeners", "ftp://127.0.0.1:0", "listeners"},
		{"connect.offset.flush.interval.ms", "soon", "offset.flush.interval.ms"},
		{"connect.offset.flush.intervall.ms", "1", "offset.flush.interval.ms"},
		{"connect.config", "missing.properties", "connect.config"},
		{"connect.config", broken, "worker.properties and connect.…: offset.flush.interval.ms=soon: not a whole number"},
	}
	for _, test := range tests {
		pairs := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "connect.listeners": "http://127.0.0.1:0"}
		pairs[test.key] = test.value
		values, tel := start(t, pairs)
		err := Main(t.Context(), process.Env{Values: values, Telemetry: tel})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%q: %v", test.key, test.value, err)
		}
	}
}
