// Package offsets is where connectors stand: the records of the offset topic in Apache Kafka's format, the table that they make, the
// bookkeeping of which offset of a source may be stored, and the offsets of sinks as REST shows them.
package offsets

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Map is a source's partition or offset: what the connector chose to call it by. Values are nil, bool, int64, float64, string and
// json.Number for integers beyond 64 bits. A Map is not changed once it was given to this package.
type Map = map[string]any

// ParseMap reads a JSON object of primitive values. Null is a nil map.
func ParseMap(text []byte) (Map, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var m Map
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	for key, value := range m {
		p, err := primitive(value)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", key, err)
		}
		m[key] = p
	}
	return m, nil
}

// primitive is a value of a Map for a decoded JSON value. Numbers without a fraction are integers, as they are in Kafka's worker.
func primitive(value any) (any, error) {
	switch v := value.(type) {
	case nil, bool, string, int64, float64:
		return v, nil
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		if !strings.ContainsAny(v.String(), ".eE") {
			return v, nil
		}
		return v.Float64()
	}
	return nil, errors.New("neither text, number, boolean nor null")
}

// identity is a text that is the same for partitions with the same fields, in whatever order.
func identity(m Map) string {
	b := make([]byte, 0, 64)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b = strconv.AppendQuote(b, key)
		b = append(b, ':')
		b = appendPrimitive(b, m[key])
		b = append(b, ',')
	}
	return string(b)
}

func appendPrimitive(b []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return appendString(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return appendFloat(b, v)
	case json.Number:
		return append(b, v...)
	}
	panic(fmt.Sprintf("offsets: a value of type %T", value))
}

// appendFloat marks a number as one with a fraction, so that it is read back as such. Those that JSON does not have are text, as in Jackson.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, `"NaN"`...)
	case math.IsInf(f, 0):
		return appendString(b, map[bool]string{true: "Infinity", false: "-Infinity"}[f > 0])
	}
	at := len(b)
	b = strconv.AppendFloat(b, f, 'g', -1, 64)
	if !bytes.ContainsAny(b[at:], ".e") {
		b = append(b, ".0"...)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	var buffer bytes.Buffer
	e := json.NewEncoder(&buffer)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(fmt.Sprintf("offsets: encoding text: %v", err))
	}
	return append(b, bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))...)
}

// appendMap writes the fields in the order in which a Java HashMap of them would give them. Kafka's own worker finds the offset of a
// partition by the bytes of its key, and most connectors make theirs of such maps.
func appendMap(b []byte, m Map) []byte {
	if m == nil {
		return append(b, "null"...)
	}
	buckets := 16
	for buckets*3/4 < len(m) {
		buckets *= 2
	}
	keys := slices.SortedFunc(maps.Keys(m), func(x, y string) int {
		return cmp.Or(cmp.Compare(bucket(x, buckets), bucket(y, buckets)), strings.Compare(x, y))
	})
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		b = appendPrimitive(b, m[key])
	}
	return append(b, '}')
}

// bucket is where a HashMap with that many buckets, a power of two, keeps a string.
func bucket(s string, buckets int) int {
	var h uint32
	for _, unit := range utf16.Encode([]rune(s)) {
		h = h*31 + uint32(unit)
	}
	return int(h^h>>16) & (buckets - 1)
}
