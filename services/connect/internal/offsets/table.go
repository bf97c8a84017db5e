package offsets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Record is a record of the offset topic; a nil value is a tombstone.
type Record struct {
	Key, Value []byte
}

// Entry is where a connector stands in one of its partitions.
type Entry struct {
	Partition Map
	// Offset is nil where it is not known, or is to be forgotten.
	Offset Map
}

// Table is what the offset topic says of source connectors. Keys are compared by what they mean, as the same partition can be written
// in several orders of its fields. It is not safe for concurrent use.
type Table struct {
	connectors map[string]map[string]*row
}

// row is one partition. It has all keys that have named it: those of other bytes may lie in other partitions of the topic, where only time
// tells which is newer.
type row struct {
	partition Map
	keys      []written // the newest last
}

type written struct {
	key         []byte
	offset      Map // nil for a tombstone
	timestampMs int64
}

func (r *row) newest() written { return r.keys[len(r.keys)-1] }

// New is the table before the first record.
func New() *Table { return &Table{connectors: map[string]map[string]*row{}} }

// ErrPassedOver is wrapped by what Apply says of a record that it does not understand. The table goes on without it.
var ErrPassedOver = errors.New("record of the offset topic is passed over")

// Apply follows a record with the time at which it was written.
func (t *Table) Apply(r Record, timestampMs int64) error {
	connector, partition, err := parseKey(r.Key)
	if err != nil {
		return fmt.Errorf("%w: key %q: %w", ErrPassedOver, r.Key, err)
	}
	now := written{key: r.Key, timestampMs: timestampMs}
	if r.Value != nil {
		if now.offset, err = ParseMap(r.Value); err != nil {
			return fmt.Errorf("%w: key %q: value: %w", ErrPassedOver, r.Key, err)
		}
	}
	id := identity(partition)
	of := t.connectors[connector][id]
	if of == nil {
		of = &row{partition: partition}
		if t.connectors[connector] == nil {
			t.connectors[connector] = map[string]*row{}
		}
		t.connectors[connector][id] = of
	}
	of.keys = slices.DeleteFunc(of.keys, func(w written) bool { return bytes.Equal(w.key, r.Key) })
	at := len(of.keys)
	for at > 0 && of.keys[at-1].timestampMs > timestampMs {
		at--
	}
	of.keys = slices.Insert(of.keys, at, now)
	return nil
}

// parseKey reads ["connector",{partition}].
func parseKey(key []byte) (connector string, partition Map, err error) {
	var pair []json.RawMessage
	if err := json.Unmarshal(key, &pair); err != nil {
		return "", nil, err
	}
	if len(pair) != 2 {
		return "", nil, fmt.Errorf("%d elements, not a connector and a partition", len(pair))
	}
	var name *string
	if err := json.Unmarshal(pair[0], &name); err != nil || name == nil {
		return "", nil, errors.New("the first element is no name")
	}
	partition, err = ParseMap(pair[1])
	return *name, partition, err
}

// Get is the offset of a connector in a partition, nil when it has none.
func (t *Table) Get(connector string, partition Map) Map {
	if r := t.connectors[connector][identity(partition)]; r != nil {
		return r.newest().offset
	}
	return nil
}

// Entries are all partitions in which a connector has an offset, in an order of their own that is always the same.
func (t *Table) Entries(connector string) []Entry {
	var entries []Entry
	rows := t.connectors[connector]
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if offset := rows[id].newest().offset; offset != nil {
			entries = append(entries, Entry{rows[id].partition, offset})
		}
	}
	return entries
}

// Records are what has to be written for a connector to stand at an offset in a partition. A key that has named the partition before
// is used again; a nil offset needs a tombstone for each of them, since compaction would bring back what an older key says.
func (t *Table) Records(connector string, e Entry) []Record {
	r := t.connectors[connector][identity(e.Partition)]
	if r == nil {
		r = &row{keys: []written{{key: newKey(connector, e.Partition)}}}
	}
	if e.Offset != nil {
		return []Record{{r.newest().key, appendMap(nil, e.Offset)}}
	}
	records := make([]Record, len(r.keys))
	for i, w := range r.keys {
		records[i].Key = w.key
	}
	return records
}

func newKey(connector string, partition Map) []byte {
	b := appendString([]byte{'['}, connector)
	b = appendMap(append(b, ','), partition)
	return append(b, ']')
}

// Connectors are those that have an offset somewhere, sorted.
func (t *Table) Connectors() []string {
	names := slices.SortedFunc(maps.Keys(t.connectors), strings.Compare)
	return slices.DeleteFunc(names, func(name string) bool { return len(t.Entries(name)) == 0 })
}
