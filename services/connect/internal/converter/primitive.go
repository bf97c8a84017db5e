package converter

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// byteArray is ByteArrayConverter: bytes are what they are.
type byteArray struct{}

var optionalBytes = &data.Schema{Type: data.TypeBytes, Optional: true}

func (byteArray) Encode(_ string, v data.Value) ([]byte, error) {
	if v.Schema != nil && v.Schema.Type != data.TypeBytes {
		return nil, fmt.Errorf("ByteArrayConverter takes BYTES, no %s", v.Schema.Type)
	}
	switch b := v.V.(type) {
	case nil:
		return nil, nil
	case []byte:
		return b, nil
	}
	return nil, fmt.Errorf("ByteArrayConverter takes bytes, no %s", data.Kind(v.V))
}

func (byteArray) Decode(_ string, b []byte) (data.Value, error) {
	if b == nil {
		return data.Value{Schema: optionalBytes}, nil
	}
	return data.Value{Schema: optionalBytes, V: b}, nil
}

// fixedSize is the converters of one type whose values have one size: numbers, big-endian, and booleans, a byte.
type fixedSize struct{ schema *data.Schema }

func fixed(t data.Type) func(configdef.Values, Use) (Converter, error) {
	c := fixedSize{&data.Schema{Type: t, Optional: true}}
	return func(configdef.Values, Use) (Converter, error) { return c, nil }
}

func (c fixedSize) Encode(_ string, v data.Value) ([]byte, error) {
	if c.schema.Type == data.TypeBoolean && v.Schema != nil && v.Schema.Type != data.TypeBoolean {
		return nil, fmt.Errorf("a converter of BOOLEAN takes no %s", v.Schema.Type)
	}
	if v.V == nil {
		return nil, nil
	}
	if err := c.schema.Validate(v.V); err != nil {
		return nil, fmt.Errorf("a converter of %s: %w", c.schema.Type, err)
	}
	switch n := v.V.(type) {
	case bool:
		if n {
			return []byte{1}, nil
		}
		return []byte{0}, nil
	case int16:
		return binary.BigEndian.AppendUint16(nil, uint16(n)), nil
	case int32:
		return binary.BigEndian.AppendUint32(nil, uint32(n)), nil
	case int64:
		return binary.BigEndian.AppendUint64(nil, uint64(n)), nil
	case float32:
		return binary.BigEndian.AppendUint32(nil, math.Float32bits(n)), nil
	case float64:
		return binary.BigEndian.AppendUint64(nil, math.Float64bits(n)), nil
	}
	return nil, fmt.Errorf("a converter of %s takes no %s", c.schema.Type, data.Kind(v.V))
}

func (c fixedSize) Decode(_ string, b []byte) (data.Value, error) {
	v := data.Value{Schema: c.schema}
	if b == nil {
		return v, nil
	}
	size := map[data.Type]int{data.TypeBoolean: 1, data.TypeInt16: 2, data.TypeInt32: 4, data.TypeInt64: 8, data.TypeFloat32: 4, data.TypeFloat64: 8}[c.schema.Type]
	if len(b) != size {
		return data.Value{}, fmt.Errorf("%s takes %d bytes, these are %d", c.schema.Type, size, len(b))
	}
	switch c.schema.Type {
	case data.TypeBoolean:
		if b[0] > 1 {
			return data.Value{}, fmt.Errorf("byte %d is no boolean", b[0])
		}
		v.V = b[0] == 1
	case data.TypeInt16:
		v.V = int16(binary.BigEndian.Uint16(b))
	case data.TypeInt32:
		v.V = int32(binary.BigEndian.Uint32(b))
	case data.TypeInt64:
		v.V = int64(binary.BigEndian.Uint64(b))
	case data.TypeFloat32:
		v.V = math.Float32frombits(binary.BigEndian.Uint32(b))
	case data.TypeFloat64:
		v.V = math.Float64frombits(binary.BigEndian.Uint64(b))
	}
	return v, nil
}
