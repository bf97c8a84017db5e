package wire

import (
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

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

// Decoder reads batches: Begin, then Next for each record. The zero value is ready; one serves one goroutine. It keeps the
// schemas of recent batches, so that those of one stream are the same objects from batch to batch.
type Decoder struct {
	tables map[string][]*data.Schema
	// batch is the one that is being read, records are its fields, left how many records are to come, read how many were.
	batch      batch
	records    message
	left, read int
}

// Decode reads a batch, whose bytes must not be written to any more: records go on using them. Schemas of what it returns are
// checked ([data.Schema.Check]), values are not held against them: see [data.Value.Validate].
func (d *Decoder) Decode(bytes []byte) ([]data.Record, error) {
	count, err := d.Begin(bytes)
	if err != nil {
		return nil, err
	}
	records := make([]data.Record, count)
	for i := range records {
		if err := d.Next(&records[i]); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// Begin begins with a batch, as Decode does, and returns how many records it has.
func (d *Decoder) Begin(bytes []byte) (count int, err error) {
	d.batch = newBatch(bytes)
	count = d.batch.topicsAndSchemas(d)
	switch {
	case d.batch.err != nil:
		return 0, fmt.Errorf("decode a batch of records: %w", d.batch.err)
	case count > MaxRecords:
		return 0, fmt.Errorf("decode a batch of records: %d records, above %d", count, MaxRecords)
	}
	d.records, d.left, d.read = d.batch.message(span{0, len(bytes)}), count, 0
	d.forgetRead()
	return count, nil
}

// Next reads the next record of the batch, of which there must be one.
func (d *Decoder) Next(r *data.Record) error {
	for d.left > 0 && d.records.next() {
		if d.records.field != batchRecords {
			continue
		}
		d.batch.record(d.records.content(), r)
		if d.batch.err != nil {
			break
		}
		d.left, d.read = d.left-1, d.read+1
		d.forgetRead()
		return nil
	}
	if d.batch.err == nil {
		d.batch.fail(fmt.Errorf("there is none"))
	}
	return fmt.Errorf("decode a batch of records: record %d: %w", d.read, d.batch.err)
}

// forgetRead lets go of a batch whose records are all read.
func (d *Decoder) forgetRead() {
	if d.left == 0 {
		d.batch, d.records = batch{}, message{}
	}
}

// batch is a batch that is being read.
type batch struct {
	bytes []byte
	// text is the same memory, so that strings are no copies: nobody writes there any more.
	text    string
	topics  []string
	schemas []*data.Schema
	// err is the first fault; reading ends with it.
	err error
}

func newBatch(bytes []byte) batch {
	return batch{bytes: bytes, text: unsafe.String(unsafe.SliceData(bytes), len(bytes))}
}

func (b *batch) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// topicsAndSchemas reads what records refer to, wherever it stands, and counts them.
func (b *batch) topicsAndSchemas(d *Decoder) (records int) {
	m := b.message(span{0, len(b.bytes)})
	for m.next() {
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

// table reads a table of schemas, unless it has read the same lately. Schemas that are kept are read from a copy, or they would
// keep the whole batch.
func (d *Decoder) table(b *batch, at span) []*data.Schema {
	if known, ok := d.tables[b.text[at.from:at.to]]; ok {
		return known
	}
	keep := at.to-at.from <= maxKeptTableBytes
	own := newBatch(b.bytes[at.from:at.to])
	if keep {
		own = newBatch(slices.Clone(own.bytes))
	}
	if err := own.table(span{0, len(own.bytes)}); err != nil {
		b.fail(err)
		return nil
	}
	if !keep {
		return own.schemas
	}
	if d.tables == nil || len(d.tables) >= maxKeptTables {
		d.tables = make(map[string][]*data.Schema, maxKeptTables)
	}
	d.tables[own.text] = own.schemas
	return own.schemas
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

func (b *batch) record(bounds span, r *data.Record) {
	*r = data.NewRecord("", data.Value{}, data.Value{})
	m := b.message(bounds)
	for m.next() {
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
	m := b.message(bounds)
	for m.next() {
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
	m := b.message(bounds)
	for m.next() {
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
	m := b.message(bounds)
	for m.next() {
		if m.field == field {
			count++
		}
	}
	list := make([]any, 0, count)
	m = b.message(bounds)
	for m.next() {
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
	m := b.message(bounds)
	for m.next() {
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
	m := b.message(bounds)
	for m.next() {
		switch m.field {
		case decimalUnscaled:
			d.Unscaled = data.NewDecimal(m.raw(), 0).Unscaled
		case decimalScale:
			d.Scale = int32(m.number())
		}
	}
	return d
}
