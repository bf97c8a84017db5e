package plugin

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

// Connector is a [SourceConnector] or a [SinkConnector], and what else it can do of ConfigValidator, Watcher, ExactlyOnce,
// SourceOffsetAlterer and SinkOffsetAlterer. It has no state: what is configured comes with each call.
type Connector interface {
	Plugin
	// Definition is the keys of a configuration.
	Definition() configdef.Definition
	// TaskConfigs divides the work of a valid configuration into at least one and at most maxTasks tasks, of which each gets
	// one of the configurations that are returned. The same division should come out as long as nothing has changed.
	TaskConfigs(ctx context.Context, config map[string]string, maxTasks int) ([]map[string]string, error)
}

// SourceConnector brings records from another system into topics.
type SourceConnector interface {
	Connector
	// NewSourceTask returns a task that is not started.
	NewSourceTask() SourceTask
}

// SinkConnector takes records from topics into another system.
type SinkConnector interface {
	Connector
	// NewSinkTask returns a task that is not started.
	NewSinkTask() SinkTask
}

// ConfigValidator is a Connector that knows more of configurations than their definition says.
type ConfigValidator interface {
	// Validate is asked about configurations in which the definition finds nothing wrong.
	Validate(ctx context.Context, config map[string]string) ([]configdef.Finding, error)
}

// Watcher is a Connector whose tasks depend on more than the configuration.
type Watcher interface {
	// Watch runs while the connector does, until ctx ends, even if the configuration leaves nothing to watch. It calls changed when TaskConfigs would
	// answer something else. To return before ctx ends fails the connector, with or without an error: nobody would notice that nothing is watched any more.
	Watch(ctx context.Context, config map[string]string, changed func()) error
}

// ExactlyOnce is a SourceConnector that makes promises for exactly-once delivery (KIP-618).
type ExactlyOnce interface {
	// Guarantees says what holds with a configuration.
	Guarantees(config map[string]string) Guarantees
}

// Guarantees are what a source promises.
type Guarantees struct {
	// ExactlyOnce says that each record of the source is read once if offsets are stored together with the records before them.
	ExactlyOnce bool
	// Transactions says that tasks can tell where transactions end.
	Transactions bool
}

// SourceOffsetAlterer is a SourceConnector that is asked before users change or remove offsets (KIP-875).
type SourceOffsetAlterer interface {
	// AlterOffsets refuses them by an error. It returns whether offsets that the connector itself keeps now follow.
	AlterOffsets(ctx context.Context, config map[string]string, offsets []SourceOffset) (handled bool, err error)
}

// SourceOffset is a place in a source: JSON objects of null, booleans, numbers and strings. A nil Offset removes the place.
type SourceOffset struct{ Partition, Offset json.RawMessage }

// SinkOffsetAlterer is a SinkConnector that is asked before users change or remove offsets (KIP-875).
type SinkOffsetAlterer interface {
	// AlterOffsets refuses them by an error. It returns whether offsets that the connector itself keeps now follow. An offset
	// of -1 is removed.
	AlterOffsets(ctx context.Context, config map[string]string, offsets map[TopicPartition]int64) (handled bool, err error)
}

// TopicPartition is a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Retriable marks an error of Poll or Put after which the same may succeed: Poll is called again, Put is called with the same
// records. Any other error fails the task.
func Retriable(err error) error { return retriable{err} }

type retriable struct{ error }

func (r retriable) Unwrap() error { return r.error }

func isRetriable(err error) bool { return errors.As(err, &retriable{}) }
