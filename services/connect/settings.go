package connect

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// defaults are what Kafka's worker has to be told.
var defaults = map[string]string{
	"group.id":             "connect-cluster",
	"config.storage.topic": "connect-configs", "offset.storage.topic": "connect-offsets", "status.storage.topic": "connect-status",
	"key.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}

// ofCauce are keys under connect. that Kafka's worker does not have.
var ofCauce = []string{"enable", "config"}

// settings are a worker's properties as its user has them: those of a file, over them what begins with connect.
type settings struct {
	properties map[string]string
	// where says where they come from.
	where string
	// unknown are the keys of the file that nobody knows, each with what is to be said of it.
	unknown config.Faults
}

func readSettings(v configkeys.Values) (*settings, error) {
	s := &settings{properties: map[string]string{"listeners": strings.Join(v.List("connect.listeners"), ",")}, where: configkeys.ConnectPrefix + "…"}
	if file := v.String("connect.config"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("connect.config: %w", err)
		}
		entries, err := config.ParseEntries(string(text))
		if err != nil {
			return nil, fmt.Errorf("connect.config: %s: %w", file, err)
		}
		s.where = file + " and " + s.where
		s.take(file, entries)
	}
	given := v.Under(configkeys.ConnectPrefix)
	for _, name := range ofCauce {
		delete(given, name)
	}
	maps.Copy(s.properties, given)
	return s, nil
}

// take adds what a worker's file has. Keys that nobody knows are passed over, as Kafka's worker does: the file may be made for one, and for more than it.
func (s *settings) take(file string, entries map[string]config.Entry) {
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if fault := workerconfig.Unknown(name); fault != nil {
			fault.Where = fmt.Sprintf("%s:%d", file, entries[name].Line)
			s.unknown = append(s.unknown, fault)
			continue
		}
		s.properties[name] = entries[name].Value
	}
}

// namesCluster says whether the user tells where the cluster is.
func (s *settings) namesCluster() bool { return s.properties["bootstrap.servers"] != "" }

// worker is the configuration, with defaults. bootstrap is where the cluster is unless the user tells.
func (s *settings) worker(bootstrap string) (workerconfig.Config, error) {
	properties := maps.Clone(defaults)
	properties["bootstrap.servers"] = bootstrap
	maps.Copy(properties, s.properties)
	return workerconfig.Parse(properties, s.where)
}

// tell logs what is passed over.
func (s *settings) tell(log *zap.Logger) {
	for _, fault := range s.unknown {
		log.Warn("a key of the worker's file has no effect", zap.Error(fault))
	}
}

// hostConfig is where connectors' programs are and what they may take. The plugin.path of a worker is Kafka's: folders besides what ships, which may well hold
// nothing but jars. The node's stands for all.
func hostConfig(v configkeys.Values, worker workerconfig.Config) (host.Config, error) {
	c := host.Config{
		Path:           worker.List("plugin.path"),
		Kinds:          []pluginpb.Kind{pluginpb.Kind_KIND_SOURCE, pluginpb.Kind_KIND_SINK, pluginpb.Kind_KIND_PARTITIONER},
		CallTimeout:    pluginCallTimeout,
		StartTimeout:   v.DurationMs("plugin.start.timeout.ms"),
		MaxAnswerBytes: v.Int("plugin.answer.max.bytes"),
		MaxMemoryBytes: v.Long("plugin.memory.max.bytes"),
	}
	shipped := v.List("plugin.path")
	var err error
	if len(shipped) == 0 {
		if shipped, err = host.PathBesideProgram(); err != nil {
			return c, fmt.Errorf("plugin.path: %w", err)
		}
	}
	c.Path = slices.Concat(c.Path, shipped)
	if c.Checksums, err = host.ParseChecksums(v.List("plugin.checksums")); err != nil {
		return c, fmt.Errorf("plugin.checksums: %w", err)
	}
	return c, nil
}
