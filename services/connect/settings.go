package connect

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

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

// settings are the worker's properties: those of the file connect.config, over them what begins with connect., and defaults. bootstrap is where the cluster is
// unless they say otherwise.
func settings(v configkeys.Values, bootstrap string) (workerconfig.Config, error) {
	properties := maps.Clone(defaults)
	properties["bootstrap.servers"] = bootstrap
	properties["listeners"] = strings.Join(v.List("connect.listeners"), ",")
	where := configkeys.ConnectPrefix + "…"
	if file := v.String("connect.config"); file != "" {
		where = file + " and " + where
		text, err := os.ReadFile(file)
		if err != nil {
			return workerconfig.Config{}, fmt.Errorf("connect.config: %w", err)
		}
		given, err := config.ParseProperties(string(text))
		if err != nil {
			return workerconfig.Config{}, fmt.Errorf("connect.config: %s: %w", file, err)
		}
		maps.Copy(properties, given)
	}
	given := v.Under(configkeys.ConnectPrefix)
	for _, name := range ofCauce {
		delete(given, name)
	}
	maps.Copy(properties, given)
	c, err := workerconfig.Parse(properties, where)
	if err != nil {
		return workerconfig.Config{}, err
	}
	return c, nil
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
