package natsio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/form"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/template"
)

// The keys of the source.
const (
	subjectsKey    = "subjects"
	queueKey       = "queue.group"
	durableKey     = "durable"
	policyKey      = "deliver.policy"
	ackWaitKey     = "ack.wait.ms"
	maxPendingKey  = "max.ack.pending"
	bufferCountKey = "buffer.max.messages"
	bufferBytesKey = "buffer.max.bytes"
	topicKey       = "topic"
	keyFromKey     = "key.from"
	valuesKey      = "value.format"
	batchKey       = "batch.size"

	keyNone    = "none"
	keySubject = "subject"
	keyHeader  = "header"

	valuesBytes = "bytes"
	valuesText  = "string"

	policyAll = "all"
	policyNew = "new"

	subjectName = "subject"
)

var sourceDefinition = form.Define(
	form.Group{Name: "Connection", Keys: connectionKeys},
	form.Group{Name: "Security", Keys: securityKeys},
	form.Group{Name: "Messages", Keys: configdef.Definition{
		{Name: subjectsKey, Type: configdef.List, Importance: configdef.High,
			Doc: "The subjects to listen to, as `orders.>`; of a stream those that are wanted of its messages, all when it is left out."},
		{Name: topicKey, Type: configdef.String, Required: true, Importance: configdef.High, Valid: nonEmpty, Recommended: []string{"${subject}"},
			Doc: "The topic to write to. `${subject}` is replaced by the subject of the message, with `_` for what no topic can have."},
		{Name: keyFromKey, Type: configdef.String, Default: new(keyNone), Importance: configdef.Medium, Dependents: []string{keyHeaderKey}, Doc: "What a record's key is: none, the subject of the message, or a header.",
			Valid: configdef.Rule{OneOf: []string{keyNone, keySubject, keyHeader}}},
		{Name: keyHeaderKey, Type: configdef.String, Importance: configdef.Medium, Doc: "The header that has the key; without it a record has none.", Valid: nonEmpty},
		{Name: valuesKey, Type: configdef.String, Default: new(valuesBytes), Importance: configdef.Medium, Doc: "What values are: bytes, or texts, in which bytes that are no UTF-8 are replaced.",
			Valid: configdef.Rule{OneOf: []string{valuesBytes, valuesText}}},
		{Name: batchKey, Type: configdef.Int, Default: new("500"), Importance: configdef.Low, Doc: "At most so many messages come at once.",
			Valid: configdef.Rule{Min: new(1.0), Max: new(10_000.0)}},
	}},
	form.Group{Name: "JetStream", Keys: configdef.Definition{
		{Name: streamKey, Type: configdef.String, Importance: configdef.High, Dependents: []string{durableKey, policyKey, ackWaitKey, maxPendingKey},
			Doc: "The stream to read. Without, the subjects as such are listened to, whose messages are there at most once: what is published while the task does not run, or is behind, is not read."},
		{Name: durableKey, Type: configdef.String, Importance: configdef.High,
			Doc: "The stream's pull consumer to read by, made when it is missing. One task alone reads by it. A message is confirmed once its record is stored."},
		{Name: policyKey, Type: configdef.String, Default: new(policyAll), Importance: configdef.Medium, Doc: "Where a consumer begins that is made: with all messages of the stream, or with new ones. A stored offset goes before that.",
			Valid: configdef.Rule{OneOf: []string{policyAll, policyNew}}},
		{Name: ackWaitKey, Type: configdef.Int, Default: new("30000"), Importance: configdef.Low,
			Doc:   "After which time, in milliseconds, a consumer that is made delivers again what is not confirmed. The task asks for more time while a record is being stored.",
			Valid: configdef.Rule{Min: new(1000.0), Max: new(maxTimeoutMs)}},
		{Name: maxPendingKey, Type: configdef.Int, Default: new("10000"), Importance: configdef.Low, Doc: "How many messages a consumer that is made delivers at most that are not confirmed.",
			Valid: configdef.Rule{Min: new(1.0), Max: new(1_000_000.0)}},
	}},
	form.Group{Name: "Subjects as such", Keys: configdef.Definition{
		{Name: queueKey, Type: configdef.String, Importance: configdef.Medium, Doc: "The queue group whose members share the messages, of which there may be several tasks.", Valid: nonEmpty},
		{Name: bufferCountKey, Type: configdef.Int, Default: new("65536"), Importance: configdef.Low, Doc: "How many messages of each subject wait at most; others are dropped, which is logged.",
			Valid: configdef.Rule{Min: new(1.0)}},
		{Name: bufferBytesKey, Type: configdef.Int, Default: new("67108864"), Importance: configdef.Low, Doc: "How many bytes of messages of each subject wait at most.",
			Valid: configdef.Rule{Min: new(1.0)}},
	}},
	form.Group{Name: "Retries", Keys: retryKeys},
)

// Source reads messages.
type Source struct{}

// Info names it "nats-source".
func (Source) Info() plugin.Info {
	return plugin.Info{Name: "nats-source", Version: "1.0.0",
		Doc: "Reads messages of NATS: of a stream of JetStream, each at least once, and once with exactly-once delivery, in the order of the stream; or of subjects as such, each at most once. " +
			"The offset is the stream's sequence. Headers are carried over, and `nats.subject` is the subject."}
}

// Definition is the keys of its configuration.
func (Source) Definition() configdef.Definition { return sourceDefinition }

// Validate checks the subjects, the names, the servers and the credentials.
func (Source) Validate(_ context.Context, config map[string]string) ([]configdef.Finding, error) {
	v, err := sourceDefinition.Parse(config)
	if err != nil {
		return nil, err
	}
	return checkSource(v), nil
}

func checkSource(v configdef.Values) form.Findings {
	f := check(v)
	for _, subject := range v.List(subjectsKey) {
		f.Add(subjectsKey, checkSubject(subject, true))
	}
	_, err := template.Parse(v.String(topicKey), subjectName)
	f.Add(topicKey, err)
	if v.String(keyFromKey) != keyHeader {
		f.Hide(keyHeaderKey)
	} else if !v.Has(keyHeaderKey) {
		f.Add(keyHeaderKey, errors.New(keyFromKey+"="+keyHeader+" needs it"))
	}
	if !v.Has(streamKey) {
		f.Hide(durableKey, policyKey, ackWaitKey, maxPendingKey, domainKey)
		if len(v.List(subjectsKey)) == 0 {
			f.Add(subjectsKey, errors.New("without "+streamKey+" at least one is wanted"))
		}
		return f
	}
	f.Hide(queueKey, bufferCountKey, bufferBytesKey)
	if !v.Has(durableKey) {
		f.Add(durableKey, errors.New(streamKey+" needs it"))
	} else {
		f.Add(durableKey, checkName(v.String(durableKey)))
	}
	return f
}

// TaskConfigs returns one, or for a queue group as many as are allowed.
func (Source) TaskConfigs(_ context.Context, config map[string]string, maxTasks int) ([]map[string]string, error) {
	if config[streamKey] != "" || config[queueKey] == "" {
		maxTasks = 1
	}
	return slices.Repeat([]map[string]string{config}, maxTasks), nil
}

// Guarantees says that messages of a stream are there once: their sequence does not change.
func (Source) Guarantees(config map[string]string) plugin.Guarantees {
	return plugin.Guarantees{ExactlyOnce: config[streamKey] != ""}
}

// AlterOffsets refuses what is no place of a stream. It removes the consumer, so that the next one begins where the offset says.
func (Source) AlterOffsets(ctx context.Context, config map[string]string, offsets []plugin.SourceOffset) (bool, error) {
	v, err := sourceDefinition.Parse(config)
	if err == nil {
		err = checkSource(v).Err()
	}
	if err != nil {
		return false, err
	}
	if !v.Has(streamKey) {
		return false, errors.New("there are no offsets without " + streamKey)
	}
	for _, o := range offsets {
		var p place
		if err := json.Unmarshal(o.Partition, &p); err != nil || p.Stream == "" {
			return false, fmt.Errorf("partition %s: {\"stream\": \"…\"} is wanted", o.Partition)
		}
		if p.Stream != v.String(streamKey) {
			return false, fmt.Errorf("partition %s: the stream that is read is %s", o.Partition, v.String(streamKey))
		}
		if o.Offset == nil {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(o.Offset))
		d.DisallowUnknownFields()
		var at position
		if err := d.Decode(&at); err != nil || !strings.Contains(string(o.Offset), `"sequence"`) {
			return false, fmt.Errorf("offset %s: {\"sequence\": …} with the sequence of the last message that was read is wanted", o.Offset)
		}
	}
	return true, removeConsumer(ctx, v)
}

func removeConsumer(ctx context.Context, v configdef.Values) error {
	c, err := dial(v, "cauce offsets")
	if err != nil {
		return err
	}
	defer c.end()
	streams, err := c.streams(v)
	if err != nil {
		return err
	}
	err = streams.DeleteConsumer(ctx, v.String(streamKey), v.String(durableKey))
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("removing the consumer %s: %w", v.String(durableKey), err)
	}
	return nil
}

// NewSourceTask returns a task.
func (Source) NewSourceTask() plugin.SourceTask { return &sourceTask{} }
