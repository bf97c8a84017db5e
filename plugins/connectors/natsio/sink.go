package natsio

import (
	"context"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/form"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/template"
)

// The keys of the sink.
const (
	subjectKey   = "subject"
	jetstreamKey = "jetstream.enabled"
	inFlightKey  = "max.in.flight"

	topicName = "topic"
	keyName   = "key"
)

var sinkDefinition = form.Define(
	form.Group{Name: "Connection", Keys: connectionKeys},
	form.Group{Name: "Security", Keys: securityKeys},
	form.Group{Name: "Messages", Keys: configdef.Definition{
		{Name: subjectKey, Type: configdef.String, Required: true, Importance: configdef.High, Valid: nonEmpty, Recommended: []string{"${topic}", "${topic}.${key}"},
			Doc: "The subject of messages. `${topic}` and `${key}` are replaced by those of the record, whose dots are dots of the subject."},
		{Name: jetstreamKey, Type: configdef.Boolean, Default: new("true"), Importance: configdef.High, Dependents: []string{streamKey},
			Doc: "Whether a stream of JetStream must confirm each message. Without, a record is written once a server has it, whether anybody listens or not."},
		{Name: streamKey, Type: configdef.String, Importance: configdef.Medium, Doc: "The stream that must take the messages; without it any may that has the subject."},
		{Name: keyHeaderKey, Type: configdef.String, Importance: configdef.Low, Doc: "The header of messages that has the record's key.", Valid: nonEmpty},
		{Name: inFlightKey, Type: configdef.Int, Default: new("256"), Importance: configdef.Medium,
			Doc:   "At most so many messages are sent and not confirmed. With more than 1 a message that a stream does not take for now may come to be behind some that were sent after it.",
			Valid: configdef.Rule{Min: new(1.0), Max: new(100_000.0)}},
	}},
	form.Group{Name: "Retries", Keys: retryKeys},
)

// Sink publishes records.
type Sink struct{}

// Info names it "nats-sink".
func (Sink) Info() plugin.Info {
	return plugin.Info{Name: "nats-sink", Version: "1.0.0",
		Doc: "Publishes records to NATS: texts and bytes as they are, all else as JSON, records without a value as messages without data. Each message has `Nats-Msg-Id`, " +
			"the topic, the partition and the offset of the record, as `orders-0-17`, by which a stream drops what comes again within its window for duplicates. " +
			"Headers are carried over, but for those that begin with `Nats-`."}
}

// Definition is the keys of its configuration.
func (Sink) Definition() configdef.Definition { return sinkDefinition }

// Validate checks the subject, the servers and the credentials.
func (Sink) Validate(_ context.Context, config map[string]string) ([]configdef.Finding, error) {
	v, err := sinkDefinition.Parse(config)
	if err != nil {
		return nil, err
	}
	return checkSink(v), nil
}

func checkSink(v configdef.Values) form.Findings {
	f := check(v)
	subject, err := template.Parse(v.String(subjectKey), topicName, keyName)
	if err == nil {
		var sample string
		if sample, err = subject.Expand(func(string) (string, error) { return "x", nil }); err == nil {
			err = checkSubject(sample, false)
		}
	}
	f.Add(subjectKey, err)
	if name := v.String(keyHeaderKey); name != "" && (!validName(name) || strings.HasPrefix(strings.ToLower(name), controlPrefix)) {
		f.Add(keyHeaderKey, errHeaderName)
	}
	if !v.Bool(jetstreamKey) {
		f.Hide(streamKey, domainKey)
	}
	return f
}

// TaskConfigs returns as many as are allowed.
func (Sink) TaskConfigs(_ context.Context, config map[string]string, maxTasks int) ([]map[string]string, error) {
	return slices.Repeat([]map[string]string{config}, maxTasks), nil
}

// AlterOffsets has nothing to do: there are no offsets besides Cauce's.
func (Sink) AlterOffsets(context.Context, map[string]string, map[plugin.TopicPartition]int64) (bool, error) {
	return true, nil
}

// NewSinkTask returns a task.
func (Sink) NewSinkTask() plugin.SinkTask { return &sinkTask{} }
