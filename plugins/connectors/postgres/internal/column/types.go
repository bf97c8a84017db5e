package column

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// The object ids of built-in types, as pg_type.dat has them.
const (
	boolOID        = 16
	byteaOID       = 17
	int8OID        = 20
	int2OID        = 21
	int4OID        = 23
	oidOID         = 26
	float4OID      = 700
	float8OID      = 701
	dateOID        = 1082
	timeOID        = 1083
	timestampOID   = 1114
	timestamptzOID = 1184
	timetzOID      = 1266
	bitOID         = 1560
	numericOID     = 1700
)

// mapping is what becomes of a column.
type mapping struct {
	schema data.Schema
	format int16
	decode decoder
}

func plain(t data.Type, format int16, decode decoder) mapping {
	return mapping{data.Schema{Type: t}, format, decode}
}

// mappingOf returns what becomes of a column. Types that Connect has no counterpart of are texts as psql shows them: arrays,
// intervals, ranges, addresses, shapes, composites, and the types of extensions.
func mappingOf(f *Field, o Options) mapping {
	switch f.TypeOID {
	case boolOID:
		return plain(data.TypeBoolean, Binary, func(raw []byte) (any, error) {
			b, err := sized(raw, 1)
			return err == nil && b[0] != 0, err
		})
	case int2OID:
		return plain(data.TypeInt16, Binary, func(raw []byte) (any, error) {
			b, err := sized(raw, 2)
			return int16(binary.BigEndian.Uint16(b)), err
		})
	case int4OID:
		return plain(data.TypeInt32, Binary, func(raw []byte) (any, error) {
			b, err := sized(raw, 4)
			return int32(binary.BigEndian.Uint32(b)), err
		})
	case int8OID:
		return plain(data.TypeInt64, Binary, func(raw []byte) (any, error) {
			b, err := sized(raw, 8)
			return int64(binary.BigEndian.Uint64(b)), err
		})
	case oidOID:
		return plain(data.TypeInt64, Binary, func(raw []byte) (any, error) {
			b, err := sized(raw, 4)
			return int64(binary.BigEndian.Uint32(b)), err
		})
	case float4OID:
		return plain(data.TypeFloat32, Binary, func(raw []byte) (any, error) {
			b, err := sized(raw, 4)
			return math.Float32frombits(binary.BigEndian.Uint32(b)), err
		})
	case float8OID:
		return plain(data.TypeFloat64, Binary, func(raw []byte) (any, error) {
			b, err := sized(raw, 8)
			return math.Float64frombits(binary.BigEndian.Uint64(b)), err
		})
	case byteaOID:
		return plain(data.TypeBytes, Binary, func(raw []byte) (any, error) { return append([]byte{}, raw...), nil })
	case bitOID:
		if f.TypeModifier == 1 {
			return plain(data.TypeBoolean, Text, func(raw []byte) (any, error) { return string(raw) == "1", nil })
		}
	case numericOID:
		return numeric(f.TypeModifier, o.Numeric)
	case dateOID, timeOID, timetzOID, timestampOID, timestamptzOID:
		return temporal(f.TypeOID, o)
	}
	return plain(data.TypeString, Text, func(raw []byte) (any, error) { return string(raw), nil })
}

var zeros [12]byte

// sized returns bytes of the length that is wanted, also with an error.
func sized(raw []byte, length int) ([]byte, error) {
	if len(raw) != length {
		return zeros[:length], fmt.Errorf("a value of %d bytes, not %d", len(raw), length)
	}
	return raw, nil
}

// IsInteger says whether values of a type are integers that a position in a table can be; of a numeric it is those
// without digits behind the point.
func IsInteger(typeOID uint32) bool {
	switch typeOID {
	case int2OID, int4OID, int8OID, numericOID:
		return true
	}
	return false
}

// IsNumeric says whether values of a type are numerics.
func IsNumeric(typeOID uint32) bool { return typeOID == numericOID }

// Integer returns the value of a column that IsInteger, in the format that a Reader asks for.
func Integer(typeOID uint32, raw []byte) (int64, error) {
	if raw == nil {
		return 0, errors.New("it is null")
	}
	if typeOID == numericOID {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%.100s is no integer of 64 bits", raw)
		}
		return n, nil
	}
	value, err := mappingOf(&Field{TypeOID: typeOID}, Options{}).decode(raw)
	if err != nil {
		return 0, err
	}
	switch n := value.(type) {
	case int16:
		return int64(n), nil
	case int32:
		return int64(n), nil
	case int64:
		return n, nil
	}
	return 0, fmt.Errorf("type %d has no integers", typeOID)
}

// IsTimestamp says whether values of a type are points in time; local if they are without a zone.
func IsTimestamp(typeOID uint32) (local, ok bool) {
	return typeOID == timestampOID, typeOID == timestampOID || typeOID == timestamptzOID
}

// Timestamp returns the value of a column that IsTimestamp, in the format that a Reader asks for.
func Timestamp(typeOID uint32, raw []byte, zone *time.Location) (time.Time, error) {
	b, err := sized(raw, 8)
	if err != nil {
		return time.Time{}, err
	}
	return pointInTime(int64(binary.BigEndian.Uint64(b)), typeOID == timestampOID, zone), nil
}
