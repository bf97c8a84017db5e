package natsio

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/backoff"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/template"
)

const (
	maxTopicBytes = 249
	// maxBatchBytes bounds the data of the messages that come at once, the last one apart.
	maxBatchBytes = 8 << 20
	// emptyWait is how long a request waits for a message that is not there yet.
	emptyWait = time.Second
)

// reader is where messages come from: a stream or subjects as such. Its methods but stored are for one goroutine at a time.
type reader interface {
	// open begins to read by a new connection.
	open(ctx context.Context, c *connection) error
	// read returns some records, or none.
	read(ctx context.Context, c *connection) ([]plugin.SourceRecord, error)
	// stored says that the record of an offset is stored.
	stored(ctx context.Context, offset any) error
	// close is called last.
	close()
}

type sourceTask struct {
	values     configdef.Values
	name       string
	reader     reader
	retry      backoff.Backoff
	connection *connection // nil until there is one, and after a failure
}

// Start connects to nothing yet: a server that is away is waited for.
func (t *sourceTask) Start(ctx context.Context, c *plugin.SourceContext, config map[string]string) error {
	v, err := sourceDefinition.Parse(config)
	if err == nil {
		err = checkSource(v).Err()
	}
	if err != nil {
		return err
	}
	t.values, t.name, t.retry = v, "cauce "+c.Name()+" "+strconv.Itoa(c.Task()), newBackoff(v)
	m, err := newMaker(v)
	if err != nil {
		return err
	}
	if !v.Has(streamKey) {
		t.reader = newSubjectReader(v, m)
		return nil
	}
	t.reader, err = newStreamReader(ctx, c, v, m)
	return err
}

// Poll returns records. After a failure it begins anew, by another connection.
func (t *sourceTask) Poll(ctx context.Context) ([]plugin.SourceRecord, error) {
	if err := t.retry.Wait(ctx, time.Hour); err != nil {
		return nil, err
	}
	if t.connection == nil {
		c, err := dial(t.values, t.name)
		if err == nil {
			t.connection = c
			err = t.reader.open(ctx, c)
		}
		if err != nil {
			return nil, t.failed(ctx, err)
		}
	}
	records, err := t.reader.read(ctx, t.connection)
	if err != nil {
		return nil, t.failed(ctx, err)
	}
	if len(records) > 0 {
		t.retry.Succeed()
	}
	return records, nil
}

func (t *sourceTask) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err() // the connection is wanted for the last confirmations
	}
	t.drop()
	var f final
	if errors.As(err, &f) || lasting(err) || !t.retry.Again(time.Now(), 0) {
		return err
	}
	return plugin.Retriable(err)
}

// final marks an error after which trying again is of no use.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

func (t *sourceTask) drop() {
	if t.connection != nil {
		t.connection.end()
		t.connection = nil
	}
}

// CommitRecord confirms the message of a record that is stored, or that was left out.
func (t *sourceTask) CommitRecord(ctx context.Context, r *plugin.SourceRecord, _ *plugin.RecordMetadata) error {
	return t.reader.stored(ctx, r.Offset)
}

// Stop closes the connection.
func (t *sourceTask) Stop() error {
	if t.reader != nil {
		t.reader.close()
	}
	t.drop()
	return nil
}

// maker makes records of messages.
type maker struct {
	topic   template.Template
	fixed   string // the topic where it is always the same
	keyFrom string
	header  string
	text    bool
}

func newMaker(v configdef.Values) (maker, error) {
	topic, err := template.Parse(v.String(topicKey), subjectName)
	m := maker{topic: topic, keyFrom: v.String(keyFromKey), header: v.String(keyHeaderKey), text: v.String(valuesKey) == valuesText}
	if err == nil && topic.Fixed() {
		m.fixed, err = topic.Expand(nil)
	}
	return m, err
}

var bytesSchema = &data.Schema{Type: data.TypeBytes}

func (m *maker) record(subject string, header nats.Header, content []byte, at time.Time) (data.Record, error) {
	topic := m.fixed
	if topic == "" {
		var err error
		if topic, err = m.topic.Expand(func(string) (string, error) { return strings.Map(topicRune, subject), nil }); err != nil {
			return data.Record{}, err
		}
		if len(topic) > maxTopicBytes {
			return data.Record{}, final{fmt.Errorf("the subject %.100s… makes a topic of %d characters, more than %d", subject, len(topic), maxTopicBytes)}
		}
	}
	if content == nil {
		content = []byte{}
	}
	var key, value data.Value
	switch m.keyFrom {
	case keySubject:
		key = data.Value{Schema: textSchema, V: subject}
	case keyHeader:
		if values := header[m.header]; len(values) > 0 {
			key = data.Value{Schema: textSchema, V: strings.ToValidUTF8(values[0], "\uFFFD")}
		}
	}
	if m.text {
		value = data.Value{Schema: textSchema, V: strings.ToValidUTF8(string(content), "\uFFFD")}
	} else {
		value = data.Value{Schema: bytesSchema, V: content}
	}
	r := data.NewRecord(topic, key, value)
	r.TimestampMs, r.Headers = at.UnixMilli(), fromMessage(subject, header)
	return r, nil
}

// topicRune is a character of a topic's name.
func topicRune(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
		return c
	}
	return '_'
}
