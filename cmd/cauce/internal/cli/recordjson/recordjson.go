// Package recordjson is the JSON form of a record, one object a line: what `cauce consume -o json`
// prints and `cauce produce --input json` reads. It loses nothing: bytes that are not UTF-8 travel
// as base64 under a name of their own.
package recordjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

type record struct {
	Topic       string          `json:"topic,omitempty"`
	Partition   *int32          `json:"partition,omitempty"`
	Offset      *int64          `json:"offset,omitempty"`
	Timestamp   *int64          `json:"timestamp,omitempty"` // milliseconds since 1970
	Type        string          `json:"timestamp_type,omitempty"`
	Key         json.RawMessage `json:"key,omitempty"`
	KeyBase64   *string         `json:"key_base64,omitempty"`
	Value       json.RawMessage `json:"value,omitempty"`
	ValueBase64 *string         `json:"value_base64,omitempty"`
	Headers     []header        `json:"headers,omitempty"`
}

type header struct {
	Name        string          `json:"name"`
	Value       json.RawMessage `json:"value,omitempty"`
	ValueBase64 *string         `json:"value_base64,omitempty"`
}

// Append appends r and a line feed to dst.
func Append(dst []byte, r *kgo.Record) []byte {
	return AppendTyped(dst, r, r.Attrs.TimestampType() == 1)
}

// AppendTyped is Append for a record that does not know itself who gave it its timestamp: the leader
// or the producer.
func AppendTyped(dst []byte, r *kgo.Record, appendTime bool) []byte {
	ms := r.Timestamp.UnixMilli()
	out := record{Topic: r.Topic, Partition: &r.Partition, Offset: &r.Offset, Timestamp: &ms, Type: "create"}
	if appendTime {
		out.Type = "append"
	}
	out.Key, out.KeyBase64 = encode(r.Key)
	out.Value, out.ValueBase64 = encode(r.Value)
	for _, h := range r.Headers {
		value, inBase64 := encode(h.Value)
		out.Headers = append(out.Headers, header{h.Key, value, inBase64})
	}
	return append(dst, marshal(out)...)
}

// marshal ends in a line feed. What it is given always encodes.
func marshal(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(fmt.Sprintf("recordjson: %T does not encode: %v", v, err))
	}
	return b.Bytes()
}

func encode(b []byte) (text json.RawMessage, inBase64 *string) {
	switch {
	case b == nil:
		return json.RawMessage("null"), nil
	case utf8.Valid(b):
		return bytes.TrimSuffix(marshal(string(b)), []byte("\n")), nil
	}
	encoded := base64.StdEncoding.EncodeToString(b)
	return nil, &encoded
}

// Parse reads one object. Topic, offset and timestamp_type are ignored: a record read from one topic
// can be sent to another. Partition is -1 and Timestamp zero where the object does not name them. A
// value that is JSON but no text becomes that JSON; unknown fields are refused.
func Parse(line []byte) (*kgo.Record, error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	var in record
	if err := decoder.Decode(&in); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, fmt.Errorf("more than one JSON value in the line")
	}
	r := &kgo.Record{Partition: -1}
	if in.Partition != nil {
		r.Partition = *in.Partition
	}
	if in.Timestamp != nil {
		r.Timestamp = time.UnixMilli(*in.Timestamp)
	}
	var err error
	if r.Key, err = decode("key", in.Key, in.KeyBase64); err != nil {
		return nil, err
	}
	if r.Value, err = decode("value", in.Value, in.ValueBase64); err != nil {
		return nil, err
	}
	for _, h := range in.Headers {
		value, err := decode("header "+h.Name, h.Value, h.ValueBase64)
		if err != nil {
			return nil, err
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: value})
	}
	return r, nil
}

func decode(field string, raw json.RawMessage, inBase64 *string) ([]byte, error) {
	if inBase64 != nil {
		b, err := base64.StdEncoding.DecodeString(*inBase64)
		if err != nil {
			return nil, fmt.Errorf("%s_base64: %w", field, err)
		}
		return b, nil
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '"' {
		return raw, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return []byte(text), nil
}
