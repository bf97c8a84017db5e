// Package blackhole is the sink that takes everything and keeps nothing: for measurements and for trying things out.
package blackhole

import (
	"context"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

// Sink drops records.
type Sink struct{}

// Info names it "blackhole".
func (Sink) Info() plugin.Info {
	return plugin.Info{Name: "blackhole", Version: "1.0.0", Doc: "Takes records and keeps none."}
}

// Definition has no keys.
func (Sink) Definition() configdef.Definition { return nil }

// TaskConfigs returns as many as are allowed: any number of tasks can drop records.
func (Sink) TaskConfigs(_ context.Context, config map[string]string, maxTasks int) ([]map[string]string, error) {
	configs := make([]map[string]string, maxTasks)
	for i := range configs {
		configs[i] = config
	}
	return configs, nil
}

// AlterOffsets has nothing to do: there are no offsets besides Cauce's.
func (Sink) AlterOffsets(context.Context, map[string]string, map[plugin.TopicPartition]int64) (bool, error) {
	return true, nil
}

// NewSinkTask returns a task.
func (Sink) NewSinkTask() plugin.SinkTask { return task{} }

type task struct{}

func (task) Start(context.Context, *plugin.SinkContext, map[string]string) error { return nil }
func (task) Put(context.Context, []plugin.SinkRecord) error                      { return nil }
func (task) Stop() error                                                         { return nil }
