// Package wire reads and writes the message RecordBatch of pluginpb's data.proto, in which records pass between Cauce and a
// plugin, without an object for each value: with the generated messages a record of ten fields is fifty allocations.
package wire

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// Encoder writes batches: Begin, Add for each record, End. The zero value is ready; one serves one goroutine and keeps nothing
// between batches but memory.
type Encoder struct {
	// out is the batch that is being written.
	out   []byte
	count int
	// table is the fields of the batch's SchemaTable so far.
	table []byte
	// schemas tells the references of schemas by address, specs by their encoded form: equal ones are sent once. last is the schema that
	// was looked up last, and lastRef its reference: most records have the same.
	schemas map[*data.Schema]uint32
	last    *data.Schema
	lastRef uint32
	specs   map[string]uint32
	topics  []string
}

// Append appends a batch to dst. Records must have valid values of what types data.Value allows, but that they are what
// their schemas describe is not checked. After an error what is returned is dst.
func (e *Encoder) Append(dst []byte, records []data.Record) ([]byte, error) {
	e.Begin(dst)
	for i := range records {
		if err := e.Add(&records[i]); err != nil {
			return dst, err
		}
	}
	return e.End(), nil
}

// Begin begins a batch that is appended to dst.
func (e *Encoder) Begin(dst []byte) {
	e.out, e.count, e.table, e.topics = dst, 0, e.table[:0], e.topics[:0]
	if e.schemas == nil {
		e.schemas, e.specs = map[*data.Schema]uint32{}, map[string]uint32{}
	}
	clear(e.schemas)
	clear(e.specs)
	e.last = nil
}

// Add adds a record, of which nothing is used any more when it returns. See Append for what is an error; after one only Begin
// goes on.
func (e *Encoder) Add(r *data.Record) error {
	if e.count == MaxRecords {
		return fmt.Errorf("batch of more than %d records", MaxRecords)
	}
	out, start := open(e.out, batchRecords)
	out, err := e.record(out, r)
	if err != nil {
		return fmt.Errorf("record %d: %w", e.count, err)
	}
	e.out = end(out, start)
	e.count++
	return nil
}

// End returns dst with the batch.
func (e *Encoder) End() []byte {
	out := e.out
	e.out = nil
	for _, topic := range e.topics {
		out = tag(out, batchTopics, protowire.BytesType)
		out = protowire.AppendString(out, topic)
	}
	if len(e.table) > 0 {
		out = tag(out, batchSchemas, protowire.BytesType)
		out = protowire.AppendBytes(out, e.table)
	}
	return out
}

// open begins an embedded message, for whose length it leaves one byte.
func open(dst []byte, field protowire.Number) ([]byte, int) {
	dst = append(tag(dst, field, protowire.BytesType), 0)
	return dst, len(dst)
}

// tag appends what a field begins with: a byte, as no field has a number above 15.
func tag(dst []byte, field protowire.Number, wireType protowire.Type) []byte {
	return append(dst, byte(field)<<3|byte(wireType))
}

// end completes the message that began at start, which moves if its length takes more than a byte.
func end(dst []byte, start int) []byte {
	size := len(dst) - start
	more := protowire.SizeVarint(uint64(size)) - 1
	if more > 0 {
		dst = append(dst, make([]byte, more)...)
		copy(dst[start+more:], dst[start:start+size])
	}
	varint(dst[:start-1], uint64(size))
	return dst
}

// reference appends a reference, or nothing for none.
func reference(dst []byte, field protowire.Number, ref uint32) []byte {
	if ref == 0 {
		return dst
	}
	return number(dst, field, uint64(ref))
}

func number(dst []byte, field protowire.Number, v uint64) []byte {
	return varint(tag(dst, field, protowire.VarintType), v)
}

func varint(dst []byte, v uint64) []byte {
	if v < 1<<7 {
		return append(dst, byte(v))
	}
	return protowire.AppendVarint(dst, v)
}

func text(dst []byte, field protowire.Number, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return dst, fmt.Errorf("%.40q is not UTF-8", s)
	}
	return protowire.AppendString(tag(dst, field, protowire.BytesType), s), nil
}

func (e *Encoder) record(dst []byte, r *data.Record) ([]byte, error) {
	topic, err := e.topic(r.Topic)
	if err != nil {
		return dst, err
	}
	dst = reference(dst, recordTopic, topic)
	if r.Partition != data.NoPartition {
		dst = number(dst, recordPartition, uint64(int64(r.Partition)))
	}
	if r.Offset != data.NoOffset {
		dst = number(dst, recordOffset, uint64(r.Offset))
	}
	if r.TimestampMs != data.NoTimestamp {
		dst = number(dst, recordTimestamp, uint64(r.TimestampMs))
	}
	if dst, err = e.typed(dst, recordKeySchema, recordKey, r.Key); err != nil {
		return dst, fmt.Errorf("key: %w", err)
	}
	if dst, err = e.typed(dst, recordValueSchema, recordValue, r.Value); err != nil {
		return dst, fmt.Errorf("value: %w", err)
	}
	for i := range r.Headers {
		var start int
		dst, start = open(dst, recordHeaders)
		if dst, err = text(dst, headerName, r.Headers[i].Name); err != nil {
			return dst, fmt.Errorf("header: %w", err)
		}
		if dst, err = e.typed(dst, headerSchema, headerValue, r.Headers[i].Value); err != nil {
			return dst, fmt.Errorf("header %q: %w", r.Headers[i].Name, err)
		}
		dst = end(dst, start)
	}
	return dst, nil
}

func (e *Encoder) topic(name string) (uint32, error) {
	if name == "" {
		return 0, nil
	}
	for i, topic := range e.topics {
		if topic == name {
			return uint32(i + 1), nil
		}
	}
	if !utf8.ValidString(name) {
		return 0, fmt.Errorf("topic %q is not UTF-8", name)
	}
	e.topics = append(e.topics, name)
	return uint32(len(e.topics)), nil
}

func (e *Encoder) typed(dst []byte, schemaField, valueField protowire.Number, v data.Value) ([]byte, error) {
	ref, err := e.schema(v.Schema, 0)
	if err != nil {
		return dst, err
	}
	dst = reference(dst, schemaField, ref)
	if v.V == nil {
		return dst, nil
	}
	return e.value(dst, valueField, v.V, 0)
}

// value appends a field of type Value.
func (e *Encoder) value(dst []byte, field protowire.Number, value any, depth int) ([]byte, error) {
	if depth >= data.MaxDepth {
		return dst, fmt.Errorf("value is nested more than %d deep", data.MaxDepth)
	}
	dst, start := open(dst, field)
	var err error
	switch v := value.(type) {
	case nil:
	case string:
		dst, err = text(dst, valueString, v)
	case int8:
		dst = number(dst, valueInt8, protowire.EncodeZigZag(int64(v)))
	case int16:
		dst = number(dst, valueInt16, protowire.EncodeZigZag(int64(v)))
	case int32:
		dst = number(dst, valueInt32, protowire.EncodeZigZag(int64(v)))
	case int64:
		dst = number(dst, valueInt64, protowire.EncodeZigZag(v))
	case float32:
		dst = protowire.AppendFixed32(tag(dst, valueFloat32, protowire.Fixed32Type), math.Float32bits(v))
	case float64:
		dst = protowire.AppendFixed64(tag(dst, valueFloat64, protowire.Fixed64Type), math.Float64bits(v))
	case bool:
		dst = number(dst, valueBoolean, protowire.EncodeBool(v))
	case []byte:
		dst = protowire.AppendBytes(tag(dst, valueBytes, protowire.BytesType), v)
	case time.Time:
		dst = number(dst, valueTime, protowire.EncodeZigZag(v.UnixMilli()))
	default:
		dst, err = e.compound(dst, value, depth)
	}
	return end(dst, start), err
}

// compound appends the field of a Value that is a message itself.
func (e *Encoder) compound(dst []byte, value any, depth int) ([]byte, error) {
	var err error
	var start int
	switch v := value.(type) {
	case *data.Struct:
		dst, start = open(dst, valueStruct)
		dst, err = e.structure(dst, v, depth)
	case []any:
		dst, start = open(dst, valueArray)
		for _, element := range v {
			if dst, err = e.value(dst, arrayElements, element, depth+1); err != nil {
				break
			}
		}
	case map[any]any:
		dst, start = open(dst, valueMap)
		dst, err = e.entries(dst, v, depth)
	case data.Decimal:
		dst, start = open(dst, valueDecimal)
		dst = protowire.AppendBytes(tag(dst, decimalUnscaled, protowire.BytesType), v.UnscaledBytes())
		dst = number(dst, decimalScale, uint64(int64(v.Scale)))
	default:
		return dst, fmt.Errorf("%T is the type of no value", value)
	}
	return end(dst, start), err
}

func (e *Encoder) structure(dst []byte, v *data.Struct, depth int) ([]byte, error) {
	if v == nil || v.Schema == nil || v.Schema.Type != data.TypeStruct || len(v.Values) != len(v.Schema.Fields) {
		return dst, fmt.Errorf("struct lacks a schema or values of its schema's fields")
	}
	ref, err := e.schema(v.Schema, depth+1)
	if err != nil {
		return dst, err
	}
	dst = reference(dst, structSchema, ref)
	for i, element := range v.Values {
		if dst, err = e.value(dst, structValues, element, depth+1); err != nil {
			return dst, fmt.Errorf("field %q: %w", v.Schema.Fields[i].Name, err)
		}
	}
	return dst, nil
}

func (e *Encoder) entries(dst []byte, m map[any]any, depth int) ([]byte, error) {
	for key, element := range m {
		var err error
		if err = data.CheckKey(key); err != nil {
			return dst, err
		}
		if dst, err = e.value(dst, mapEntries, key, depth+1); err != nil {
			return dst, fmt.Errorf("key of a map: %w", err)
		}
		if dst, err = e.value(dst, mapEntries, element, depth+1); err != nil {
			return dst, fmt.Errorf("value of key %v: %w", key, err)
		}
	}
	return dst, nil
}
