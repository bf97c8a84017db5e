package data

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"
)

// The names of Kafka Connect's logical types.
const (
	DecimalName   = "org.apache.kafka.connect.data.Decimal"
	DateName      = "org.apache.kafka.connect.data.Date"
	TimeName      = "org.apache.kafka.connect.data.Time"
	TimestampName = "org.apache.kafka.connect.data.Timestamp"
)

// ScaleParameter is the parameter of Decimal schemas that holds their scale.
const ScaleParameter = "scale"

const dayMs = 24 * 60 * 60 * 1000

// Decimal is Unscaled × 10^-Scale. The zero value is 0.
type Decimal struct {
	Unscaled *big.Int
	Scale    int32
}

// unscaled returns what Unscaled holds, which it shares.
func (d Decimal) unscaled() *big.Int {
	if d.Unscaled == nil {
		return new(big.Int)
	}
	return d.Unscaled
}

// NewDecimal returns the decimal whose unscaled number is in big-endian two's complement.
func NewDecimal(unscaled []byte, scale int32) Decimal {
	return Decimal{Unscaled: fromTwosComplement(unscaled), Scale: scale}
}

// UnscaledBytes returns the unscaled number in big-endian two's complement, as few bytes as it takes but at least one.
func (d Decimal) UnscaledBytes() []byte { return twosComplement(d.unscaled()) }

// Equal says whether both are the same number written with the same scale, as Java's BigDecimal compares: 1.0 differs from 1.00.
func (d Decimal) Equal(o Decimal) bool {
	return d.Scale == o.Scale && d.unscaled().Cmp(o.unscaled()) == 0
}

// DecimalSchema returns the schema of decimals with a scale, stored as bytes.
func DecimalSchema(scale int32) *Schema {
	version := int32(1)
	return &Schema{
		Type: TypeBytes, Name: DecimalName, Version: &version,
		Parameters: []Parameter{{ScaleParameter, strconv.FormatInt(int64(scale), 10)}},
	}
}

// DateSchema returns the schema of days, stored as days since 1970 in 32 bits.
func DateSchema() *Schema { return timeSchema(TypeInt32, DateName) }

// TimeSchema returns the schema of times of day, stored as milliseconds since midnight in 32 bits.
func TimeSchema() *Schema { return timeSchema(TypeInt32, TimeName) }

// TimestampSchema returns the schema of points in time, stored as milliseconds since 1970 in 64 bits.
func TimestampSchema() *Schema { return timeSchema(TypeInt64, TimestampName) }

func timeSchema(t Type, name string) *Schema {
	version := int32(1)
	return &Schema{Type: t, Name: name, Version: &version}
}

// Scale returns the scale of a Decimal schema.
func (s *Schema) Scale() (int32, error) {
	text, ok := s.Parameter(ScaleParameter)
	if !ok {
		return 0, fmt.Errorf("Decimal schema lacks the parameter %s", ScaleParameter)
	}
	scale, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("scale %q of a Decimal schema is no 32-bit number", text)
	}
	return int32(scale), nil
}

// stored is the type in which values of a logical type are stored; 0 for any other name.
func stored(name string) Type {
	switch name {
	case DecimalName:
		return TypeBytes
	case DateName, TimeName:
		return TypeInt32
	case TimestampName:
		return TypeInt64
	}
	return 0
}

// Logical says whether the schema is of a logical type.
func (s *Schema) Logical() bool { return stored(s.Name) != 0 }

func (s *Schema) checkLogical() error {
	t := stored(s.Name)
	if t == 0 {
		return nil
	}
	if t != s.Type {
		return fmt.Errorf("schema of %s is named %s, which is of %s", s.Type, s.Name, t)
	}
	if s.Name == DecimalName {
		_, err := s.Scale()
		return err
	}
	return nil
}

// ToStored returns a value of a logical type as it is stored, and any other value as it is. Fractions of a millisecond are
// cut off; what does not fit the stored type is an error, and so is a Date that has a time of day and a Time beyond one day.
func (s *Schema) ToStored(value any) (any, error) {
	if value == nil || !s.Logical() {
		return value, nil
	}
	if err := s.validateLogical(value); err != nil {
		return nil, err
	}
	if d, ok := value.(Decimal); ok {
		return d.UnscaledBytes(), nil
	}
	ms := value.(time.Time).UnixMilli()
	switch s.Name {
	case DateName:
		return int32(ms / dayMs), nil
	case TimeName:
		return int32(ms), nil
	}
	return ms, nil
}

// FromStored is the inverse of ToStored. Times are in UTC.
func (s *Schema) FromStored(value any) (any, error) {
	if value == nil || !s.Logical() {
		return value, nil
	}
	switch v := value.(type) {
	case []byte:
		if s.Name == DecimalName {
			scale, err := s.Scale()
			return NewDecimal(v, scale), err
		}
	case int64:
		if s.Name == TimestampName {
			return time.UnixMilli(v).UTC(), nil
		}
	case int32:
		switch {
		case s.Name == DateName:
			return time.UnixMilli(int64(v) * dayMs).UTC(), nil
		case s.Name == TimeName && v >= 0 && v < dayMs:
			return time.UnixMilli(int64(v)).UTC(), nil
		case s.Name == TimeName:
			return nil, fmt.Errorf("%d ms is no time of day", v)
		}
	}
	return nil, fmt.Errorf("%s is stored as %s, not %s", s.Name, stored(s.Name), Kind(value))
}

func (s *Schema) validateLogical(value any) error {
	d, isDecimal := value.(Decimal)
	t, isTime := value.(time.Time)
	if isDecimal != (s.Name == DecimalName) || !isDecimal && !isTime {
		return fmt.Errorf("%s is no value of %s", Kind(value), s.Name)
	}
	ms := t.UnixMilli()
	switch s.Name {
	case DecimalName:
		if scale, err := s.Scale(); err != nil || scale != d.Scale {
			return fmt.Errorf("decimal of scale %d is no value of a schema of scale %d", d.Scale, scale)
		}
	case DateName:
		if ms%dayMs != 0 || ms/dayMs < math.MinInt32 || ms/dayMs > math.MaxInt32 {
			return fmt.Errorf("%d ms is no whole day of a Date", ms)
		}
	case TimeName:
		if ms < 0 || ms >= dayMs {
			return fmt.Errorf("%d ms is no time of day", ms)
		}
	}
	return nil
}

func twosComplement(n *big.Int) []byte {
	switch n.Sign() {
	case 0:
		return []byte{0}
	case 1:
		return n.FillBytes(make([]byte, n.BitLen()/8+1))
	}
	// -n-1 has the inverted bits of n.
	inverted := new(big.Int).Not(n)
	b := inverted.FillBytes(make([]byte, inverted.BitLen()/8+1))
	for i := range b {
		b[i] = ^b[i]
	}
	return b
}

func fromTwosComplement(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}
