package transform

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/javadate"
)

// The target types of TimestampConverter.
const (
	toString    = "string"
	toUnix      = "unix"
	toDate      = "Date"
	toTime      = "Time"
	toTimestamp = "Timestamp"
)

var timestampConverterDefinition = configdef.Definition{
	{Name: "field", Type: configdef.String, Default: new(""), Importance: configdef.High, Doc: "The field that is a time; empty if the whole is one."},
	{
		Name: "target.type", Type: configdef.String, Required: true, Importance: configdef.High,
		Valid: configdef.Rule{OneOf: []string{toString, toUnix, toDate, toTime, toTimestamp}}, Doc: "What the time becomes. Date, Time and Timestamp are Connect's logical types.",
	},
	{
		Name: "format", Type: configdef.String, Default: new(""), Importance: configdef.Medium,
		Doc: "How texts are written and read, as a pattern of Java's SimpleDateFormat, in UTC.",
	},
	{
		Name: "unix.precision", Type: configdef.String, Default: new("milliseconds"), Importance: configdef.Low,
		Valid: configdef.Rule{OneOf: []string{"nanoseconds", "microseconds", "milliseconds", "seconds"}}, Doc: "What the numbers of Unix time count. Times are kept to the millisecond.",
	},
	replaceNullKey,
}

// timestampConverter is TimestampConverter.
type timestampConverter struct {
	field, target string
	format        *javadate.Format
	// perMs is how many units of Unix time a millisecond has, msPer how many milliseconds a unit has; one of them is 1.
	perMs, msPer int64
	replace      bool
	schemas      derived[*data.Schema]
}

func newTimestampConverter(v configdef.Values, of side) (Transform, error) {
	t := &timestampConverter{field: v.String("field"), target: v.String("target.type"), perMs: 1, msPer: 1, replace: v.Bool(replaceNull)}
	switch v.String("unix.precision") {
	case "nanoseconds":
		t.perMs = 1_000_000
	case "microseconds":
		t.perMs = 1_000
	case "seconds":
		t.msPer = 1_000
	}
	format := v.String("format")
	if format == "" {
		if t.target == toString {
			return nil, errors.New("the target type string needs a format")
		}
		return onValue{of, t.apply}, nil
	}
	var err error
	t.format, err = javadate.Compile(format)
	return onValue{of, t.apply}, err
}

func (t *timestampConverter) apply(v data.Value) (data.Value, error) {
	switch {
	case t.field == "":
		return t.whole(v)
	case v.V == nil:
		return v, nil
	case v.Schema == nil:
		m, err := mapOf(v, "TimestampConverter")
		if err != nil {
			return v, err
		}
		m = maps.Clone(m)
		m[t.field], err = t.convert(nil, m[t.field])
		return data.Value{V: m}, err
	}
	s, err := structOf(v, "TimestampConverter")
	if err != nil {
		return v, err
	}
	schema, err := t.schemas.get(v.Schema, func(s *data.Schema) (*data.Schema, error) {
		made := basics(s)
		for _, f := range s.Fields {
			if f.Name == t.field {
				f.Schema = t.schema(f.Schema.Optional)
			}
			made.Fields = append(made.Fields, f)
		}
		return made, nil
	})
	if err != nil {
		return v, err
	}
	changed := data.NewStruct(schema)
	for i, f := range v.Schema.Fields {
		changed.Values[i] = fieldValue(s, i, t.replace)
		if f.Name == t.field {
			if changed.Values[i], err = t.convert(f.Schema, changed.Values[i]); err != nil {
				return v, fmt.Errorf("field %q: %w", f.Name, err)
			}
		}
	}
	return data.Value{Schema: schema, V: changed}, nil
}

func (t *timestampConverter) whole(v data.Value) (data.Value, error) {
	if v.Schema == nil {
		changed, err := t.convert(nil, v.V)
		return data.Value{V: changed}, err
	}
	changed, err := t.convert(v.Schema, v.V)
	if err != nil {
		return v, err
	}
	schema, err := t.schemas.get(v.Schema, func(s *data.Schema) (*data.Schema, error) { return t.schema(s.Optional), nil })
	return data.Value{Schema: schema, V: changed}, err
}

// schema returns the schema of what becomes of times.
func (t *timestampConverter) schema(optional bool) *data.Schema {
	var s *data.Schema
	switch t.target {
	case toString:
		s = &data.Schema{Type: data.TypeString}
	case toUnix:
		s = &data.Schema{Type: data.TypeInt64}
	case toDate:
		s = data.DateSchema()
	case toTime:
		s = data.TimeSchema()
	default:
		s = data.TimestampSchema()
	}
	return s.WithOptional(optional)
}

func (t *timestampConverter) convert(s *data.Schema, v any) (any, error) {
	if s != nil && s.Name != data.TimestampName && s.Name != data.DateName && s.Name != data.TimeName && s.Type != data.TypeInt64 && s.Type != data.TypeString {
		return nil, fmt.Errorf("TimestampConverter: a %s is no time", s.Type)
	}
	if v == nil {
		return nil, nil
	}
	at, err := t.read(v)
	if err != nil {
		return nil, fmt.Errorf("TimestampConverter: %w", err)
	}
	const dayMs = 24 * 60 * 60 * 1000
	ms := at.UnixMilli()
	clockMs := (ms%dayMs + dayMs) % dayMs
	switch t.target {
	case toString:
		return t.format.Format(at), nil
	case toUnix:
		return scaled(ms, t.perMs) / t.msPer, nil
	case toDate:
		return time.UnixMilli(ms - clockMs).UTC(), nil
	case toTime:
		return time.UnixMilli(clockMs).UTC(), nil
	}
	return at, nil
}

func (t *timestampConverter) read(v any) (time.Time, error) {
	switch v := v.(type) {
	case time.Time:
		return v.UTC(), nil
	case int64:
		return time.UnixMilli(scaled(v, t.msPer) / t.perMs).UTC(), nil
	case string:
		if t.format == nil {
			return time.Time{}, errors.New("texts need a format")
		}
		return t.format.Parse(v)
	}
	return time.Time{}, fmt.Errorf("%s is no time", data.Kind(v))
}

// scaled returns the product, or the largest number of its sign where that does not fit.
func scaled(n, by int64) int64 {
	switch {
	case n > math.MaxInt64/by:
		return math.MaxInt64
	case n < math.MinInt64/by:
		return math.MinInt64
	}
	return n * by
}
