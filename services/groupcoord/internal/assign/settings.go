package assign

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// HostConfig is what a node's keys say about its plugins. It fails when plugin.checksums is not a list of FILE=HEXADECIMAL.
func HostConfig(v configkeys.Values) (host.Config, error) {
	c := host.Config{
		Path:           v.List("plugin.path"),
		Kinds:          []pluginpb.Kind{pluginpb.Kind_KIND_ASSIGNOR},
		CallTimeout:    v.DurationMs("group.assignor.timeout.ms"),
		StartTimeout:   v.DurationMs("plugin.start.timeout.ms"),
		MaxAnswerBytes: v.Int("plugin.answer.max.bytes"),
		MaxMemoryBytes: v.Long("plugin.memory.max.bytes"),
	}
	if len(c.Path) == 0 {
		program, err := os.Executable()
		if err != nil {
			return c, fmt.Errorf("plugin.path: %w", err)
		}
		c.Path = []string{filepath.Join(filepath.Dir(program), "plugins")}
	}
	for _, pair := range v.List("plugin.checksums") {
		name, sum, ok := strings.Cut(pair, "=")
		if !ok {
			return c, fmt.Errorf("plugin.checksums: %q is not FILE=SHA256", pair)
		}
		if c.Checksums == nil {
			c.Checksums = map[string]string{}
		}
		c.Checksums[strings.TrimSpace(name)] = strings.TrimSpace(sum)
	}
	return c, nil
}
