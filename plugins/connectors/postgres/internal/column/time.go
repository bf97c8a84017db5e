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

// How values of timestamp columns are given, in the words of the JDBC connector.
const (
	ConnectLogical = "connect_logical" // a Timestamp, in milliseconds
	MicrosLong     = "micros_long"
	MicrosString   = "micros_string"
	MicrosISO      = "micros_iso_datetime_string"
	NanosLong      = "nanos_long"
	NanosString    = "nanos_string"
	NanosISO       = "nanos_iso_datetime_string"
)

const (
	epochSeconds = 946_684_800 // from 1970 to 2000, where PostgreSQL's time begins
	epochDays    = epochSeconds / daySeconds
	daySeconds   = 24 * 60 * 60
	dayMicros    = daySeconds * 1_000_000
)

// Infinity and MinusInfinity are the points in time that PostgreSQL's driver for Java gives for these.
var (
	Infinity      = time.UnixMilli(9_223_372_036_825_200_000).UTC()
	MinusInfinity = time.UnixMilli(-9_223_372_036_832_400_000).UTC()
)

// pointInTime returns what a number of microseconds since 2000 stands for.
func pointInTime(micros int64, local bool, zone *time.Location) time.Time {
	switch micros {
	case math.MaxInt64:
		return Infinity
	case math.MinInt64:
		return MinusInfinity
	}
	seconds, rest := micros/1_000_000, micros%1_000_000
	t := time.Unix(seconds+epochSeconds, rest*1000).UTC()
	if local && zone != time.UTC {
		t = time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone).UTC()
	}
	return t
}

// temporal returns what becomes of a date, a time or a timestamp.
func temporal(typeOID uint32, o Options) mapping {
	switch typeOID {
	case dateOID:
		return mapping{*data.DateSchema(), Binary, func(raw []byte) (any, error) {
			b, err := sized(raw, 4)
			return date(int32(binary.BigEndian.Uint32(b))), err
		}}
	case timeOID:
		return mapping{*data.TimeSchema(), Binary, func(raw []byte) (any, error) {
			b, err := sized(raw, 8)
			return timeOfDay(int64(binary.BigEndian.Uint64(b))), err
		}}
	case timetzOID:
		return mapping{*data.TimeSchema(), Binary, func(raw []byte) (any, error) {
			b, err := sized(raw, 12)
			west := int64(int32(binary.BigEndian.Uint32(b[8:]))) // seconds
			return timeOfDay(int64(binary.BigEndian.Uint64(b)) + west*1_000_000), err
		}}
	}
	schema, give := granularity(o)
	return mapping{schema, Binary, func(raw []byte) (any, error) {
		t, err := Timestamp(typeOID, raw, o.Zone)
		if err != nil {
			return nil, err
		}
		return give(t)
	}}
}

// date returns a day. Infinite ones are the first and the last that a Date can be, which PostgreSQL's own days do not reach.
func date(days int32) time.Time {
	since1970 := int64(days)
	if days != math.MinInt32 {
		since1970 = min(since1970+epochDays, math.MaxInt32)
	}
	return time.Unix(since1970*daySeconds, 0).UTC()
}

// timeOfDay returns a time in UTC; 24:00 is 00:00.
func timeOfDay(micros int64) time.Time {
	return time.UnixMicro((micros%dayMicros + dayMicros) % dayMicros).UTC()
}

var errTooFar = errors.New("the point in time is too far from 1970 for 64 bits")

// granularity returns the schema of timestamps, and what makes a value of one.
func granularity(o Options) (data.Schema, func(time.Time) (any, error)) {
	text := func(t time.Time, unit int64) (any, error) {
		n, err := since1970(t, unit)
		return strconv.FormatInt(n, 10), err
	}
	switch o.Granularity {
	case MicrosLong:
		return data.Schema{Type: data.TypeInt64}, func(t time.Time) (any, error) { return since1970(t, 1e6) }
	case NanosLong:
		return data.Schema{Type: data.TypeInt64}, func(t time.Time) (any, error) { return since1970(t, 1e9) }
	case MicrosString:
		return data.Schema{Type: data.TypeString}, func(t time.Time) (any, error) { return text(t, 1e6) }
	case NanosString:
		return data.Schema{Type: data.TypeString}, func(t time.Time) (any, error) { return text(t, 1e9) }
	case MicrosISO, NanosISO:
		layout := "2006-01-02T15:04:05.000000"
		if o.Granularity == NanosISO {
			layout += "000"
		}
		return data.Schema{Type: data.TypeString}, func(t time.Time) (any, error) { return t.In(o.Zone).Format(layout), nil }
	}
	return *data.TimestampSchema(), func(t time.Time) (any, error) { return t, nil }
}

// since1970 counts units, of which a second has some.
func since1970(t time.Time, unit int64) (int64, error) {
	seconds := t.Unix()
	if seconds >= math.MaxInt64/unit || seconds <= math.MinInt64/unit {
		return 0, fmt.Errorf("%s: %w", FormatTimestamp(t), errTooFar)
	}
	return seconds*unit + int64(t.Nanosecond())/(1e9/unit), nil
}

// FormatTimestamp returns a point in time as PostgreSQL reads it, with the offset of its zone, to the microsecond.
func FormatTimestamp(t time.Time) string {
	switch {
	case t.Equal(Infinity):
		return "infinity"
	case t.Equal(MinusInfinity):
		return "-infinity"
	}
	return FormatDate(t, "15:04:05.999999-07:00:00")
}

// FormatDate returns a day as PostgreSQL reads it, and behind it what a layout of package time says.
func FormatDate(t time.Time, layout string) string {
	year, era := t.Year(), ""
	if year <= 0 {
		year, era = 1-year, " BC"
	}
	text := fmt.Sprintf("%04d-%02d-%02d", year, t.Month(), t.Day())
	if layout != "" {
		text += " " + t.Format(layout)
	}
	return text + era
}
