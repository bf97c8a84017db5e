package expression

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/values"
)

// ordered makes a comparison of which is the lesser; null is neither.
func ordered(holds func(c int) bool) func(a, b any) (bool, error) {
	return func(a, b any) (bool, error) {
		if a == nil || b == nil {
			return false, nil
		}
		c, comparable, isNaN := compare(a, b)
		if !comparable {
			return false, fmt.Errorf("%s and %s cannot be compared", data.Kind(a), data.Kind(b))
		}
		return !isNaN && holds(c), nil
	}
}

func equal(a, b any) bool {
	if a == nil || b == nil {
		return a == b
	}
	if c, comparable, isNaN := compare(a, b); comparable {
		return c == 0 && !isNaN
	}
	return data.Equal(a, b)
}

// compare says which of two values is the lesser, if they are of a kind that has an order. A NaN has none.
func compare(a, b any) (c int, comparable, isNaN bool) {
	switch x := a.(type) {
	case string:
		switch y := b.(type) {
		case string:
			return strings.Compare(x, y), true, false
		case time.Time:
			c, comparable = compareTimeText(y, x)
			return -c, comparable, false
		}
		return 0, false, false
	case bool:
		y, ok := b.(bool)
		if !ok || x == y {
			return 0, ok, false
		}
		if y {
			return -1, true, false
		}
		return 1, true, false
	case []byte:
		y, ok := b.([]byte)
		return bytes.Compare(x, y), ok, false
	case time.Time:
		switch y := b.(type) {
		case time.Time:
			return cmp.Compare(x.UnixMilli(), y.UnixMilli()), true, false
		case string:
			c, comparable = compareTimeText(x, y)
			return c, comparable, false
		}
		return 0, false, false
	}
	return compareNumbers(a, b)
}

func compareTimeText(t time.Time, text string) (int, bool) {
	at, ok := values.Parse(text).V.(time.Time)
	return cmp.Compare(t.UnixMilli(), at.UnixMilli()), ok
}

// compareNumbers compares numbers by their value. A float is compared with a decimal as what that is as a float: 0.1 is equal to
// the nearest there is.
func compareNumbers(a, b any) (c int, comparable, isNaN bool) {
	x, xInt := integer(a)
	y, yInt := integer(b)
	if xInt && yInt {
		return cmp.Compare(x, y), true, false
	}
	if f, bits := float(a); bits != 0 {
		return compareFloat(f, bits, b)
	}
	if f, bits := float(b); bits != 0 {
		c, comparable, isNaN = compareFloat(f, bits, a)
		return -c, comparable, isNaN
	}
	r, ok := rational(a)
	s, also := rational(b)
	if !ok || !also {
		return 0, false, false
	}
	return r.Cmp(s), true, false
}

func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int8:
		return int64(n), true
	case int16:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	}
	return 0, false
}

func float(v any) (f float64, bits int) {
	switch f := v.(type) {
	case float32:
		return float64(f), 32
	case float64:
		return f, 64
	}
	return 0, 0
}

func compareFloat(f float64, bits int, other any) (c int, comparable, isNaN bool) {
	g, otherBits := float(other)
	switch {
	case otherBits == 32 && bits == 64:
		f = float64(float32(f))
	case otherBits == 64 && bits == 32:
		g = float64(float32(g))
	}
	if d, ok := other.(data.Decimal); ok {
		g, _ = strconv.ParseFloat(values.Decimal(d), bits) // out of range it is an infinity
		otherBits = bits
	}
	if otherBits != 0 {
		return cmp.Compare(f, g), true, math.IsNaN(f) || math.IsNaN(g)
	}
	n, ok := integer(other)
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		return cmp.Compare(f, 0), ok, math.IsNaN(f)
	}
	return new(big.Rat).SetFloat64(f).Cmp(new(big.Rat).SetInt64(n)), true, false
}

// maxScale bounds the decimals that are compared with others by their value.
const maxScale = 10_000

func rational(v any) (*big.Rat, bool) {
	if n, ok := integer(v); ok {
		return new(big.Rat).SetInt64(n), true
	}
	d, ok := v.(data.Decimal)
	if !ok || d.Scale > maxScale || d.Scale < -maxScale {
		return nil, false
	}
	return new(big.Rat).SetString(values.Decimal(d))
}
