package sourcetask

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
	"github.com/cauce-stream/cauce/services/connect/internal/topiccreation"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// Config says which task it is, and how its connector and its worker are configured.
type Config struct {
	// Connector is what users call the connector, Number the task's among its tasks, from 0.
	Connector string
	Number    int
	// Properties are the connector's configuration, Task is what the connector has divided it into for this task.
	Properties, Task map[string]string
	Worker           workerconfig.Config
}

// Deps are what a task is connected to.
type Deps struct {
	// Start starts the connector's part, in a process of its own.
	Start func(context.Context, remote.Task) (*remote.SourceTask, error)
	// Pipeline is the task's own.
	Pipeline *pipeline.Pipeline
	// Producer and Admin are the options of the clients: where the brokers are, and what users override. They win over what the task sets by
	// itself, but must set neither a partitioner nor a transactional id.
	Producer, Admin []kgo.Opt
	// Partition asks a partitioner plugin for the partitions of records; nil where there are no plugins.
	Partition func(ctx context.Context, name, topic string, partitions int32, records []plugin.Record) ([]int32, error)
	// ReadOffsets returns the stored offsets of partitions of the source, in their order, nil for none. With ExactlyOnce it reads what was
	// committed up to the moment at which it is called.
	ReadOffsets func(ctx context.Context, partitions []json.RawMessage) ([]json.RawMessage, error)
	// WriteOffsets stores offsets, and returns when they are acknowledged. With ExactlyOnce it may be nil, and is otherwise given what was stored by
	// a transaction, as a copy: then its errors are logged.
	WriteOffsets func(context.Context, []offsets.Entry) error
	// ExactlyOnce has records and offsets written by transactions; nil for at least once.
	ExactlyOnce *ExactlyOnce
	// Running is called once the connector's part has started, Used with the topic of each record that was stored, by one goroutine.
	Running func()
	Used    func(topic string)
	Log     *zap.Logger
	// Tracer makes spans of batches; nil for none.
	Tracer  trace.Tracer
	Metrics *Metrics
}

// ExactlyOnce is what transactions need (exactly.once.source.support=enabled).
type ExactlyOnce struct {
	// OffsetsTopic is where offsets are stored, by RecordsFor's records.
	OffsetsTopic string
	RecordsFor   func(offsets.Entry) []offsets.Record
	// BeforeInit is called before earlier producers with the task's transactional id are fenced off, BeforeFirst after that and before anything is read.
	// Their errors end the task: it is no longer this worker's. Either may be nil.
	BeforeInit, BeforeFirst func(context.Context) error
}

// The values of transaction.boundary.
const (
	boundaryPoll      = "poll"
	boundaryInterval  = "interval"
	boundaryConnector = "connector"
)

var definition = configdef.Definition{
	{Name: "transaction.boundary", Type: configdef.String, Default: new(boundaryPoll), Importance: configdef.Medium,
		Valid: configdef.Rule{OneOf: []string{boundaryPoll, boundaryInterval, boundaryConnector}, IgnoreCase: true}, Doc: "What ends a transaction."},
	{Name: "transaction.boundary.interval.ms", Type: configdef.Long, Importance: configdef.Low, Valid: configdef.Rule{Min: new(0.0)},
		Doc: "Milliseconds between the ends of transactions."},
}

// The prefixes of what users set for producers, the connector's after the worker's.
const producerOverride = "producer.override."

// settings are what the configuration comes to.
type settings struct {
	clientID, adminID, transactionalID string
	flushInterval, flushTimeout        time.Duration
	// boundary and interval are of transactions.
	boundary   string
	interval   time.Duration
	topics     *topiccreation.Groups // nil: none is created
	idempotent bool
	// maxRequestBytes is what the producer takes at most (max.request.size).
	maxRequestBytes int
	// partitioner is the name of a plugin, or of a class of Kafka's.
	partitioner string
}

// TransactionalID is that of a task's producer, as Kafka's worker has it: who fences a task has to name it.
func TransactionalID(worker workerconfig.Config, connector string, number int) string {
	return fmt.Sprintf("%s-%s-%d", worker.String("group.id"), connector, number)
}

func newSettings(c Config) (settings, error) {
	of := func(err error) error { return fmt.Errorf("configuration of connector %q: %w", c.Connector, err) }
	v, err := definition.Parse(c.Properties)
	if err != nil {
		return settings{}, of(err)
	}
	producer := c.Worker.Family(workerconfig.Producer)
	for name, value := range c.Properties {
		if rest, ok := strings.CutPrefix(name, producerOverride); ok {
			producer[rest] = value
		}
	}
	id := fmt.Sprintf("%s-%d", c.Connector, c.Number)
	s := settings{
		clientID: "connector-producer-" + id, adminID: "connector-adminclient-" + id, transactionalID: TransactionalID(c.Worker, c.Connector, c.Number),
		flushInterval: c.Worker.DurationMs("offset.flush.interval.ms"), flushTimeout: c.Worker.DurationMs("offset.flush.timeout.ms"),
		boundary: strings.ToLower(v.String("transaction.boundary")), idempotent: strings.EqualFold(strings.TrimSpace(producer["enable.idempotence"]), "true"),
		partitioner: strings.TrimSpace(producer["partitioner.class"]),
	}
	s.maxRequestBytes = defaultBatchBytes
	if text, given := producer["max.request.size"]; given {
		if s.maxRequestBytes, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
			return settings{}, of(fmt.Errorf("max.request.size: %w", err))
		}
	}
	s.interval = s.flushInterval
	if v.Has("transaction.boundary.interval.ms") {
		s.interval = v.Millis("transaction.boundary.interval.ms")
	}
	if c.Worker.Bool("topic.creation.enable") {
		if s.topics, err = topiccreation.New(c.Properties); err != nil {
			return settings{}, of(err)
		}
	}
	return s, nil
}
