package assign

import (
	"fmt"

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
	var err error
	if len(c.Path) == 0 {
		if c.Path, err = host.PathBesideProgram(); err != nil {
			return c, fmt.Errorf("plugin.path: %w", err)
		}
	}
	if c.Checksums, err = host.ParseChecksums(v.List("plugin.checksums")); err != nil {
		return c, fmt.Errorf("plugin.checksums: %w", err)
	}
	return c, nil
}
