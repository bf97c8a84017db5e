package column

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

const (
	// openScale is the scale of numerics that are declared without one.
	openScale = 127
	// precisionParameter is the parameter of Decimal schemas by which the JDBC connectors tell the precision.
	precisionParameter = "connect.decimal.precision"
	// mostIntegerDigits is how many digits always fit an INT64 for the JDBC connectors.
	mostIntegerDigits = 18
)

// numeric returns what becomes of a numeric with a type modifier. Where precision and scale are not declared it is a Decimal
// whatever the mapping, as any digits may come.
func numeric(modifier int32, how string) mapping {
	if modifier < 4 {
		return decimal(0, openScale)
	}
	precision := int(modifier-4) >> 16 & 0xffff
	scale := int((modifier-4)&0x7ff^1024) - 1024 // 11 bits with a sign
	digits := precision - min(scale, 0)          // of the integer that it is without digits behind the point
	switch {
	case how == NumericPrecision && scale == 0 && digits <= mostIntegerDigits:
		return integer(digits)
	case how != NumericBestFit && how != NumericEagerDouble:
	case scale <= 0 && digits <= mostIntegerDigits:
		return integer(digits)
	case scale > 0 && (precision <= mostIntegerDigits || how == NumericEagerDouble):
		return plain(data.TypeFloat64, Text, func(raw []byte) (any, error) { return strconv.ParseFloat(string(raw), 64) })
	}
	return decimal(precision, scale)
}

func integer(digits int) mapping {
	t, bits := data.TypeInt64, 64
	switch {
	case digits <= 2:
		t, bits = data.TypeInt8, 8
	case digits <= 4:
		t, bits = data.TypeInt16, 16
	case digits <= 9:
		t, bits = data.TypeInt32, 32
	}
	return plain(t, Text, func(raw []byte) (any, error) {
		n, err := strconv.ParseInt(string(raw), 10, bits)
		if err != nil {
			return nil, fmt.Errorf("%.100s is no %s", raw, t)
		}
		switch t {
		case data.TypeInt8:
			return int8(n), nil
		case data.TypeInt16:
			return int16(n), nil
		case data.TypeInt32:
			return int32(n), nil
		}
		return n, nil
	})
}

func decimal(precision, scale int) mapping {
	schema := *data.DecimalSchema(int32(scale))
	schema.Parameters = append(schema.Parameters, data.Parameter{Name: precisionParameter, Value: strconv.Itoa(precision)})
	return mapping{schema, Text, func(raw []byte) (any, error) { return ParseDecimal(string(raw), int32(scale)) }}
}

// ParseDecimal returns the number that digits with at most one point stand for, with a scale; it is exact or an error.
func ParseDecimal(text string, scale int32) (data.Decimal, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	digits := whole + fraction
	missing := int(scale) - len(fraction)
	if missing < 0 {
		// What is cut off is zeros, as behind numerics whose scale is below zero.
		cut := max(len(digits)+missing, 0)
		if strings.Trim(digits[cut:], "0") != "" {
			return data.Decimal{}, fmt.Errorf("%.100s has more than %d digits behind the point", text, scale)
		}
		digits, missing = digits[:cut], 0
		if digits == "" || digits == "-" {
			digits = "0"
		}
	}
	unscaled, ok := new(big.Int).SetString(digits+strings.Repeat("0", missing), 10)
	if !ok || math.Abs(float64(scale)) > 1<<20 {
		return data.Decimal{}, fmt.Errorf("%.100s is no Decimal", text)
	}
	return data.Decimal{Unscaled: unscaled, Scale: scale}, nil
}
