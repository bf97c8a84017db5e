// Package format prints records by a template in the manner of kcat's -f.
package format

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Help lists the directives for help texts.
const Help = `  %k %v  key, value (%s is the same as %v)     %K %V  their sizes in bytes, -1 for null (%S is %V)
  %t %p  topic, partition                      %o %e  offset, leader epoch
  %T     timestamp in ms                       %d     timestamp as RFC 3339, UTC
  %h     headers, name=value,name=value        %R     value size as 4 bytes, big endian
  %%     a percent sign                        \n \r \t \0 \\ \xHH`

type appender func(dst []byte, r *kgo.Record) []byte

// Format is a compiled template. It may be used by one goroutine at a time.
type Format struct {
	parts []appender
	null  string
}

// Parse compiles a template. null is what a null key or value prints as.
func Parse(template, null string) (*Format, error) {
	f := &Format{null: null}
	var literal []byte
	flush := func() {
		if len(literal) > 0 {
			text := literal
			f.parts = append(f.parts, func(dst []byte, _ *kgo.Record) []byte { return append(dst, text...) })
			literal = nil
		}
	}
	for i := 0; i < len(template); {
		if template[i] != '%' {
			b, size, err := unescape(template, i)
			if err != nil {
				return nil, err
			}
			literal = append(literal, b)
			i += size
			continue
		}
		if i+1 == len(template) {
			return nil, fmt.Errorf("%q ends in a single percent sign", template)
		}
		directive := template[i+1]
		i += 2
		if directive == '%' {
			literal = append(literal, '%')
			continue
		}
		part := f.directive(directive)
		if part == nil {
			return nil, fmt.Errorf("%q: unknown directive %%%c", template, directive)
		}
		flush()
		f.parts = append(f.parts, part)
	}
	flush()
	return f, nil
}

// Append appends the text of r to dst.
func (f *Format) Append(dst []byte, r *kgo.Record) []byte {
	for _, part := range f.parts {
		dst = part(dst, r)
	}
	return dst
}

func (f *Format) directive(c byte) appender {
	switch c {
	case 'k':
		return func(dst []byte, r *kgo.Record) []byte { return f.bytes(dst, r.Key) }
	case 'v', 's':
		return func(dst []byte, r *kgo.Record) []byte { return f.bytes(dst, r.Value) }
	case 'K':
		return func(dst []byte, r *kgo.Record) []byte { return number(dst, int64(size(r.Key))) }
	case 'V', 'S':
		return func(dst []byte, r *kgo.Record) []byte { return number(dst, int64(size(r.Value))) }
	case 'R':
		return func(dst []byte, r *kgo.Record) []byte {
			return binary.BigEndian.AppendUint32(dst, uint32(int32(size(r.Value))))
		}
	case 't':
		return func(dst []byte, r *kgo.Record) []byte { return append(dst, r.Topic...) }
	case 'p':
		return func(dst []byte, r *kgo.Record) []byte { return number(dst, int64(r.Partition)) }
	case 'o':
		return func(dst []byte, r *kgo.Record) []byte { return number(dst, r.Offset) }
	case 'e':
		return func(dst []byte, r *kgo.Record) []byte { return number(dst, int64(r.LeaderEpoch)) }
	case 'T':
		return func(dst []byte, r *kgo.Record) []byte { return number(dst, r.Timestamp.UnixMilli()) }
	case 'd':
		return func(dst []byte, r *kgo.Record) []byte {
			return r.Timestamp.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
		}
	case 'h':
		return f.headers
	}
	return nil
}

func (f *Format) bytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, f.null...)
	}
	return append(dst, b...)
}

func (f *Format) headers(dst []byte, r *kgo.Record) []byte {
	for i, header := range r.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, header.Key...)
		dst = append(dst, '=')
		dst = f.bytes(dst, header.Value)
	}
	return dst
}

func number(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

func size(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}

// ParseHeaders reads headers as %h prints them: name=value pairs separated by commas. A value equal
// to null is a null value; a pair without "=" is refused. The empty text holds no headers.
func ParseHeaders(s string, null func(string) bool) ([]kgo.RecordHeader, error) {
	if s == "" {
		return nil, nil
	}
	var headers []kgo.RecordHeader
	for pair := range strings.SplitSeq(s, ",") {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return nil, fmt.Errorf("header %q: must be name=value", pair)
		}
		header := kgo.RecordHeader{Key: name}
		if !null(value) {
			header.Value = []byte(value)
		}
		headers = append(headers, header)
	}
	return headers, nil
}

// Time parses a time given on a command line: RFC 3339, a local date or date and time, or milliseconds
// since 1970.
func Time(s string) (time.Time, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.UnixMilli(ms), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q: must be RFC 3339, YYYY-MM-DD, or milliseconds since 1970", s)
}
