package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// SourceTask reads from another system, in a process of its own. Poll is called from one goroutine; a SourceCommitter's and
// a RecordCommitter's methods are called from another one, one at a time, while a Poll may be under way.
type SourceTask interface {
	// Start is called first. ctx ends when the task is to end.
	Start(ctx context.Context, c *SourceContext, config map[string]string) error
	// Poll waits for records, and returns some. It returns soon after ctx has ended; what it returns then counts for nothing.
	// Without records it is called again at once. A Retriable error is followed by another call, any other fails the task.
	Poll(ctx context.Context) ([]SourceRecord, error)
	// Stop is called last, when no other method is under way, and after a Start that failed, too.
	Stop() error
}

// SourceCommitter is a SourceTask that wants to know how far records and offsets are stored, to confirm it to its source.
type SourceCommitter interface {
	// Commit says that the records that CommitRecord was called for are stored, and so are their offsets. An error is logged.
	Commit(ctx context.Context) error
}

// RecordCommitter is a SourceTask that wants to know of each record.
type RecordCommitter interface {
	// CommitRecord says that a record is stored, or was left out by the configuration: then m is nil. Records come in any
	// order. An error is logged.
	CommitRecord(ctx context.Context, r *SourceRecord, m *RecordMetadata) error
}

// SourceRecord is a record of a source. data.NewRecord makes the record itself.
type SourceRecord struct {
	data.Record
	// Source is the partition of the source that the record comes from; nil for one whose place is not kept.
	Source *SourcePartition
	// Offset is where Source goes on after the record: anything that encoding/json makes an object of null, booleans, numbers
	// and strings of. It may be nil in all records but the last of each partition in a batch.
	Offset any
}

// RecordMetadata says where a record is stored.
type RecordMetadata struct {
	Topic       string
	Partition   int32
	Offset      int64
	TimestampMs int64
}

// SourceContext is what a SourceTask knows of its surroundings.
type SourceContext struct {
	name         string
	task         int
	transactions bool
	read         func(ctx context.Context, partitions [][]byte) ([][]byte, error)

	boundary boundary // of the batch that Poll is about to return
}

type boundary int

const (
	noBoundary boundary = iota
	commitBoundary
	abortBoundary
)

// Name is what users call the connector.
func (c *SourceContext) Name() string { return c.name }

// Task is the task's number among the connector's tasks, from 0.
func (c *SourceContext) Task() int { return c.task }

// SourcePartition is a part of a source whose records are in an order, with the place up to which they are stored.
type SourcePartition struct {
	key    []byte
	offset []byte
}

// Partition returns the partition that a key names: anything that encoding/json makes an object of null, booleans, numbers
// and strings of, and the same object whenever the same is meant. It asks Cauce for the stored offset. It may be called from
// Start and Poll.
func (c *SourceContext) Partition(ctx context.Context, key any) (*SourcePartition, error) {
	all, err := c.Partitions(ctx, key)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Partitions returns the partitions of many keys, for which it asks once.
func (c *SourceContext) Partitions(ctx context.Context, keys ...any) ([]*SourcePartition, error) {
	texts := make([][]byte, len(keys))
	for i, key := range keys {
		text, err := object(key)
		if err != nil {
			return nil, fmt.Errorf("partition of a source: %w", err)
		}
		texts[i] = text
	}
	offsets, err := c.read(ctx, texts)
	if err != nil {
		return nil, fmt.Errorf("reading the offsets of a source: %w", err)
	}
	all := make([]*SourcePartition, len(keys))
	for i := range keys {
		all[i] = &SourcePartition{key: texts[i], offset: offsets[i]}
	}
	return all, nil
}

// Offset reads the offset that was stored when the partition was asked for into v, as encoding/json does, and says whether
// there was one.
func (p *SourcePartition) Offset(v any) (bool, error) {
	if len(p.offset) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(p.offset, v); err != nil {
		return false, fmt.Errorf("stored offset %s of %s: %w", p.offset, p.key, err)
	}
	return true, nil
}

// Transactions says whether the task is to tell where transactions end, by CommitTransaction and AbortTransaction
// (transaction.boundary=connector).
func (c *SourceContext) Transactions() bool { return c.transactions }

// CommitTransaction, called by Poll, ends the transaction after the records that it returns.
func (c *SourceContext) CommitTransaction() { c.boundary = commitBoundary }

// AbortTransaction, called by Poll, drops the records of the transaction, those that it returns included.
func (c *SourceContext) AbortTransaction() { c.boundary = abortBoundary }

// object is the JSON of a flat object.
func object(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, fmt.Errorf("%T is no object: %.100s", v, text)
	}
	// Objects and arrays cannot be within: Kafka's workers refuse to read them.
	quoted := false
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == '['):
			return nil, errors.New("an object of null, booleans, numbers and strings is wanted, not " + string(text[:min(len(text), 100)]))
		}
	}
	return text, nil
}
