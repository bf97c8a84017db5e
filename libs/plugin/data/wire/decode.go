package wire

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// MaxRecords bounds the records of a batch.
const MaxRecords = 1 << 20

// Bounds of the schema tables that a Decoder keeps.
const (
	maxKeptTables     = 16
	maxKeptTableBytes = 1 << 20
)

// Decoder reads batches. The zero value is ready; one serves one goroutine. It keeps the schemas of recent batches, so that
// those of one stream are the same objects from batch to batch.
type Decoder struct {
	tables map[string][]*data.Schema
}

// Decode reads a batch, whose bytes the records go on using. Schemas of what it returns are checked ([data.Schema.Check]),
// values are not held against them: see [data.Value.Validate].
func (d *Decoder) Decode(bytes []byte) ([]data.Record, error) {
	b := batch{bytes: bytes, text: string(bytes)}
	count := b.topicsAndSchemas(d)
	if b.err != nil {
		return nil, fmt.Errorf("decode a batch of records: %w", b.err)
	}
	if count > MaxRecords {
		return nil, fmt.Errorf("decode a batch of records: %d records, above %d", count, MaxRecords)
	}
	records := make([]data.Record, 0, count)
	for m := b.message(span{0, len(bytes)}); m.next(); {
		if m.field == batchRecords {
			records = append(records, b.record(m.content()))
		}
	}
	if b.err != nil {
		return nil, fmt.Errorf("decode a batch of records: record %d: %w", len(records)-1, b.err)
	}
	return records, nil
}

// batch is a batch that is being read. Its strings are parts of one copy of it.
type batch struct {
	bytes   []byte
	text    string
	topics  []string
	schemas []*data.Schema
	// err is the first fault; reading ends with it.
	err error
}

func (b *batch) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// topicsAndSchemas reads what records refer to, wherever it stands, and counts them.
func (b *batch) topicsAndSchemas(d *Decoder) (records int) {
	for m := b.message(span{0, len(b.bytes)}); m.next(); {
		switch m.field {
		case batchSchemas:
			if b.schemas != nil {
				b.fail(fmt.Errorf("two tables of schemas"))
				return 0
			}
			b.schemas = d.table(b, m.content())
		case batchTopics:
			b.topics = append(b.topics, m.text())
		case batchRecords:
			records++
		}
	}
	return records
}

// table reads a table of schemas, unless it has read the same lately.
func (d *Decoder) table(b *batch, at span) []*data.Schema {
	key := b.text[at.from:at.to]
	if known, ok := d.tables[key]; ok {
		return known
	}
	if err := b.table(at); err != nil {
		b.fail(err)
		return nil
	}
	if len(key) > maxKeptTableBytes {
		return b.schemas
	}
	if d.tables == nil || len(d.tables) >= maxKeptTables {
		d.tables = make(map[string][]*data.Schema, maxKeptTables)
	}
	d.tables[string([]byte(key))] = b.schemas
	return b.schemas
}

func (b *batch) reference(ref uint64) *data.Schema {
	if ref == 0 {
		return nil
	}
	if ref > uint64(len(b.schemas)) {
		b.fail(fmt.Errorf("reference %d to one of %d schemas", ref, len(b.schemas)))
		return nil
	}
	return b.schemas[ref-1]
}

func (b *batch) record(bounds span) data.Record {
	r := data.NewRecord("", data.Value{}, data.Value{})
	for m := b.message(bounds); m.next(); {
		switch m.field {
		case recordTopic:
			r.Topic = b.topic(m.number())
		case recordPartition:
			r.Partition = int32(m.number())
		case recordOffset:
			r.Offset = int64(m.number())
		case recordTimestamp:
			r.TimestampMs = int64(m.number())
		case recordKeySchema:
			r.Key.Schema = b.reference(m.number())
		case recordKey:
			r.Key.V = b.value(m.content(), 0)
		case recordValueSchema:
			r.Value.Schema = b.reference(m.number())
		case recordValue:
			r.Value.V = b.value(m.content(), 0)
		case recordHeaders:
			r.Headers = append(r.Headers, b.header(m.content()))
		}
	}
	return r
}

func (b *batch) topic(ref uint64) string {
	if ref == 0 || ref > uint64(len(b.topics)) {
		if ref != 0 {
			b.fail(fmt.Errorf("reference %d to one of %d topics", ref, len(b.topics)))
		}
		return ""
	}
	return b.topics[ref-1]
}

func (b *batch) header(bounds span) (h data.Header) {
	for m := b.message(bounds); m.next(); {
		switch m.field {
		case headerName:
			h.Name = m.text()
		case headerSchema:
			h.Value.Schema = b.reference(m.number())
		case headerValue:
			h.Value.V = b.value(m.content(), 0)
		}
	}
	return h
}

func (b *batch) value(bounds span, depth int) (v any) {
	if depth >= data.MaxDepth {
		b.fail(fmt.Errorf("value is nested more than %d deep", data.MaxDepth))
		return nil
	}
	for m := b.message(bounds); m.next(); {
		switch m.field {
		case valueInt8:
			v = int8(m.signed())
		case valueInt16:
			v = int16(m.signed())
		case valueInt32:
			v = int32(m.signed())
		case valueInt64:
			v = m.signed()
		case valueFloat32:
			if m.expect(protowire.Fixed32Type) {
				v = math.Float32frombits(uint32(m.varint))
			}
		case valueFloat64:
			if m.expect(protowire.Fixed64Type) {
				v = math.Float64frombits(m.varint)
			}
		case valueBoolean:
			v = m.number() != 0
		case valueString:
			v = m.text()
		case valueBytes:
			v = m.raw()
		case valueTime:
			v = time.UnixMilli(m.signed()).UTC()
		case valueArray:
			v = b.list(m.content(), arrayElements, depth)
		case valueMap:
			v = b.entries(m.content(), depth)
		case valueStruct:
			v = b.structure(m.content(), depth)
		case valueDecimal:
			v = b.decimal(m.content())
		}
	}
	return v
}

// list reads the values of a repeated field, which it counts first.
func (b *batch) list(bounds span, field protowire.Number, depth int) []any {
	count := 0
	for m := b.message(bounds); m.next(); {
		if m.field == field {
			count++
		}
	}
	list := make([]any, 0, count)
	for m := b.message(bounds); m.next(); {
		if m.field == field {
			list = append(list, b.value(m.content(), depth+1))
		}
	}
	return list
}

func (b *batch) entries(bounds span, depth int) map[any]any {
	list := b.list(bounds, mapEntries, depth)
	if len(list)%2 != 0 {
		b.fail(fmt.Errorf("the last key of a map has no value"))
		return nil
	}
	entries := make(map[any]any, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		if err := data.CheckKey(list[i]); err != nil {
			b.fail(err)
			return nil
		}
		entries[list[i]] = list[i+1]
	}
	return entries
}

func (b *batch) structure(bounds span, depth int) any {
	var ref uint64
	for m := b.message(bounds); m.next(); {
		if m.field == structSchema {
			ref = m.number()
		}
	}
	s := &data.Struct{Schema: b.reference(ref), Values: b.list(bounds, structValues, depth)}
	if b.err == nil && (s.Schema == nil || s.Schema.Type != data.TypeStruct || len(s.Values) != len(s.Schema.Fields)) {
		b.fail(fmt.Errorf("struct lacks a schema or values of its schema's fields"))
	}
	if b.err != nil {
		return nil
	}
	return s
}

func (b *batch) decimal(bounds span) (d data.Decimal) {
	for m := b.message(bounds); m.next(); {
		switch m.field {
		case decimalUnscaled:
			d.Unscaled = data.NewDecimal(m.raw(), 0).Unscaled
		case decimalScale:
			d.Scale = int32(m.number())
		}
	}
	return d
}
