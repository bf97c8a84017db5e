package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

const (
	connectorPrefix = "status-connector-"
	taskPrefix      = "status-task-"
	topicPrefix     = "status-topic-"
	// topicSeparator is between topic and connector. Topics have no colon.
	topicSeparator = ":connector-"
)

// maxTraceBytes bounds the trace in a record, which a broker would refuse if it were too long.
const maxTraceBytes = 64 << 10

type (
	statusValue struct {
		State      string  `json:"state"`
		Trace      *string `json:"trace"`
		WorkerID   string  `json:"worker_id"`
		Generation int32   `json:"generation"`
		Version    *string `json:"version"`
	}
	topicValue struct {
		Topic *topicFields `json:"topic"`
	}
	topicFields struct {
		Name         string `json:"name"`
		Connector    string `json:"connector"`
		Task         int32  `json:"task"`
		DiscoveredMs int64  `json:"discoverTimestamp"`
	}
)

// Record is a record to be written; a nil value is a tombstone.
type Record struct {
	Key   string
	Value []byte
}

// StatusRecord is the record of a status. A trace of more than 64 KiB is cut.
func StatusRecord(item work.Item, s Status) Record {
	if len(s.Trace) > maxTraceBytes {
		s.Trace = strings.ToValidUTF8(s.Trace[:maxTraceBytes], "")
	}
	return Record{keyOf(item), marshal(statusValue{string(s.State), optional(s.Trace), s.WorkerID, s.Generation, optional(s.Version)})}
}

// RemovalRecord takes the status of something away that is no longer configured.
func RemovalRecord(item work.Item) Record { return Record{Key: keyOf(item)} }

// TopicRecord says that a connector uses a topic.
func TopicRecord(t Topic) Record {
	return Record{topicKey(t.Connector, t.Name), marshal(topicValue{&topicFields{t.Name, t.Connector, t.Task, t.DiscoveredMs}})}
}

// TopicRemovalRecord forgets that a connector used a topic.
func TopicRemovalRecord(connector, topic string) Record {
	return Record{Key: topicKey(connector, topic)}
}

// Forgets says whether a record takes a topic from those that a connector has used.
func Forgets(key string, value []byte) bool {
	return value == nil && strings.HasPrefix(key, topicPrefix)
}

func keyOf(item work.Item) string {
	if item.IsTask() {
		return taskPrefix + item.String()
	}
	return connectorPrefix + item.Connector
}

func topicKey(connector, topic string) string {
	return topicPrefix + topic + topicSeparator + connector
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("status: a record of strings and numbers: %v", err))
	}
	return b
}

// ErrPassedOver is wrapped by what Apply says of a record that it does not understand. The table goes on without it.
var ErrPassedOver = errors.New("record of the status topic is passed over")

// Apply follows a record. A nil value is a tombstone.
//
// An Unassigned of the same or an earlier generation does not replace a Running: the worker that gave the work up wrote after the one that took it over.
func (t *Table) Apply(key string, value []byte) error {
	var err error
	if rest, ok := strings.CutPrefix(key, connectorPrefix); ok {
		err = t.applyStatus(work.Connector(rest), value)
	} else if rest, ok := strings.CutPrefix(key, taskPrefix); ok {
		task, ok := work.ParseTask(rest)
		if !ok {
			return fmt.Errorf("%w: key %q names no task", ErrPassedOver, key)
		}
		err = t.applyStatus(task, value)
	} else if rest, ok := strings.CutPrefix(key, topicPrefix); ok {
		err = t.applyTopic(rest, value)
	} else {
		err = errors.New("unknown kind of key")
	}
	if err != nil {
		return fmt.Errorf("%w: key %q: %w", ErrPassedOver, key, err)
	}
	return nil
}

func (t *Table) applyStatus(item work.Item, value []byte) error {
	if value == nil {
		remove(t.statuses, item.Connector, item.Task)
		return nil
	}
	var v statusValue
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	s := Status{State: State(v.State), WorkerID: v.WorkerID, Generation: v.Generation}
	if !slices.Contains(states, s.State) {
		return fmt.Errorf("state %q", v.State)
	}
	if v.Trace != nil {
		s.Trace = *v.Trace
	}
	if v.Version != nil {
		s.Version = *v.Version
	}
	now, ok := t.Get(item)
	if ok && s.State == Unassigned && now.State == Running && s.Generation <= now.Generation {
		return nil
	}
	put(t.statuses, item.Connector, item.Task, s)
	return nil
}

func (t *Table) applyTopic(rest string, value []byte) error {
	topic, connector, ok := strings.Cut(rest, topicSeparator)
	if !ok {
		return errors.New("key names no connector")
	}
	if value == nil {
		remove(t.topics, connector, topic)
		return nil
	}
	var v topicValue
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	if v.Topic == nil {
		return errors.New("value has no topic")
	}
	put(t.topics, connector, topic, Topic{topic, connector, v.Topic.Task, v.Topic.DiscoveredMs})
	return nil
}

func put[K comparable, V any](m map[string]map[K]V, connector string, key K, value V) {
	if m[connector] == nil {
		m[connector] = map[K]V{}
	}
	m[connector][key] = value
}

func remove[K comparable, V any](m map[string]map[K]V, connector string, key K) {
	delete(m[connector], key)
	if len(m[connector]) == 0 {
		delete(m, connector)
	}
}
