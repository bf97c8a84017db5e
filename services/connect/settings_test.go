package connect

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
)

// TestKeysOfOthers has a file of another's worker be taken, and what nobody knows in it be named; what is not in a file is wrong.
func TestKeysOfOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "worker.properties")
	text := "# of elsewhere\ngroup.idd=a\nconfluent.license=x\nauto.include.jmx.reporter=true\nmetric.reporters=io.confluent.Reporter\nodd.key=1\n" +
		"rest.port=8084\noffset.flush.interval.ms=7\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := config.FromMap(configkeys.Broker(), map[string]string{"connect.config": file})
	if err != nil {
		t.Fatal(err)
	}
	s, err := readSettings(values)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	s.tell(zap.New(core))
	var told []string
	for _, line := range logs.All() {
		told = append(told, fmt.Sprint(line.ContextMap()["error"]))
	}
	want := []string{
		file + ":2: group.idd: unknown key, did you mean group.id?", file + ":6: odd.key: unknown key", file + ":7: rest.port: removed in Kafka 3, use listeners",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	worker, err := s.worker("127.0.0.1:9092")
	if err != nil || worker.Long("offset.flush.interval.ms") != 7 || worker.String("group.id") != "connect-cluster" {
		t.Errorf("%v, %s", err, worker.String("group.id"))
	}
}

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
		read, err := readSettings(values)
		if err != nil {
			t.Fatal(err)
		}
		worker, err := read.worker("127.0.0.1:9092")
		if err != nil {
			t.Fatal(err)
		}
		if c, err := hostConfig(values, worker); err != nil || !slices.Equal(c.Path, test.want) {
			t.Errorf("%v: %v, %v; want %v", test.pairs, c.Path, err, test.want)
		}
	}
}
