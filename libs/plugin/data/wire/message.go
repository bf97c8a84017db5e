package wire

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// span is a part of the batch's bytes.
type span struct{ from, to int }

// message goes through the fields of a message. A fault ends it and stands in the batch.
type message struct {
	b        *batch
	at, to   int
	field    protowire.Number
	wireType protowire.Type
	// varint is the value of a field that is a number, of any wire type.
	varint uint64
	// bytes is where the value of a length-delimited field is.
	bytes span
}

// message goes through the fields at bounds. It is to be kept in a variable of its own: one of a for statement is copied for each field.
func (b *batch) message(bounds span) message { return message{b: b, at: bounds.from, to: bounds.to} }

// next goes to the next field, and says whether there is one. Groups are skipped.
func (m *message) next() bool {
	if m.b.err != nil {
		return false
	}
	for m.at < m.to {
		if m.short() {
			return true
		}
		rest := m.b.bytes[m.at:m.to]
		field, wireType, tagSize := protowire.ConsumeTag(rest)
		if tagSize < 0 {
			m.b.fail(protowire.ParseError(tagSize))
			return false
		}
		size := m.value(wireType, rest[tagSize:], m.at+tagSize)
		if wireType == protowire.StartGroupType || wireType == protowire.EndGroupType {
			size = protowire.ConsumeFieldValue(field, wireType, rest[tagSize:])
		}
		if size < 0 {
			m.b.fail(protowire.ParseError(size))
			return false
		}
		m.at += tagSize + size
		m.field, m.wireType = field, wireType
		if wireType != protowire.StartGroupType {
			return true
		}
	}
	return false
}

// short goes to the next field if it is a number or a length-delimited one whose tag has one byte and whose number or size has
// one or two, as most are.
func (m *message) short() bool {
	rest := m.b.bytes[m.at:m.to]
	if len(rest) < 3 || rest[0] < 1<<3 || rest[0] >= 1<<7 {
		return false
	}
	n, used := int(rest[1]), 2
	if n >= 1<<7 {
		if rest[2] >= 1<<7 {
			return false
		}
		n, used = n&(1<<7-1)|int(rest[2])<<7, 3
	}
	switch wireType := protowire.Type(rest[0] & 7); wireType {
	case protowire.VarintType:
		m.varint = uint64(n)
		m.wireType = wireType
		m.at += used
	case protowire.BytesType:
		if n > len(rest)-used {
			return false
		}
		m.bytes = span{m.at + used, m.at + used + n}
		m.wireType = wireType
		m.at += used + n
	default:
		return false
	}
	m.field = protowire.Number(rest[0] >> 3)
	return true
}

// value reads a field's value, and returns its size or an error as protowire does.
func (m *message) value(wireType protowire.Type, rest []byte, at int) int {
	var size int
	switch wireType {
	case protowire.VarintType:
		m.varint, size = protowire.ConsumeVarint(rest)
	case protowire.Fixed32Type:
		var v uint32
		v, size = protowire.ConsumeFixed32(rest)
		m.varint = uint64(v)
	case protowire.Fixed64Type:
		m.varint, size = protowire.ConsumeFixed64(rest)
	case protowire.BytesType:
		var content []byte
		content, size = protowire.ConsumeBytes(rest)
		m.bytes = span{at + size - len(content), at + size}
	}
	return size
}

func (m *message) expect(wireType protowire.Type) bool {
	if m.wireType == wireType {
		return true
	}
	m.b.fail(fmt.Errorf("field %d has wire type %d, not %d", m.field, m.wireType, wireType))
	return false
}

func (m *message) number() uint64 {
	if !m.expect(protowire.VarintType) {
		return 0
	}
	return m.varint
}

func (m *message) signed() int64 { return protowire.DecodeZigZag(m.number()) }

func (m *message) content() span {
	if !m.expect(protowire.BytesType) {
		return span{}
	}
	return m.bytes
}

func (m *message) text() string {
	at := m.content()
	s := m.b.text[at.from:at.to]
	if !utf8.ValidString(s) {
		m.b.fail(fmt.Errorf("%.40q is not UTF-8", s))
	}
	return s
}

// raw returns a field's bytes, which are the batch's own.
func (m *message) raw() []byte {
	at := m.content()
	return m.b.bytes[at.from:at.to:at.to]
}
