package connect

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
)

// TestPluginPath has a worker's file of Kafka's, whose plugin.path is where jars are, not hide what ships.
func TestPluginPath(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ships := filepath.Join(filepath.Dir(program), "plugins")
	file := filepath.Join(t.TempDir(), "worker.properties")
	if err := os.WriteFile(file, []byte("plugin.path=/usr/share/java,/opt/connectors\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		pairs map[string]string
		want  []string
	}{
		{nil, []string{ships}},
		{map[string]string{"plugin.path": "/node"}, []string{"/node"}},
		{map[string]string{"connect.config": file}, []string{"/usr/share/java", "/opt/connectors", ships}},
		{map[string]string{"connect.config": file, "connect.plugin.path": "/mine", "plugin.path": "/node"}, []string{"/mine", "/node"}},
	} {
		values, err := config.FromMap(configkeys.Broker(), test.pairs)
		if err != nil {
			t.Fatal(err)
		}
		worker, err := settings(values, "127.0.0.1:9092")
		if err != nil {
			t.Fatal(err)
		}
		if c, err := hostConfig(values, worker); err != nil || !slices.Equal(c.Path, test.want) {
			t.Errorf("%v: %v, %v; want %v", test.pairs, c.Path, err, test.want)
		}
	}
}
