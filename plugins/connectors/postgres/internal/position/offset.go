// Package position says how far a table or a query has been read: the offsets that the JDBC connectors keep, which carry on
// here, and the statement that returns what comes after one.
package position

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// The names that the JDBC connectors have for parts of an offset, and the one besides.
const (
	incrementingName = "incrementing"
	timestampName    = "timestamp"
	nanosName        = "timestamp_nanos"
	keyName          = "key"
)

// Offset is how far something was read: up to an incrementing number, a point in time, or both. The zero value is the
// beginning. Key, which the JDBC connectors do not have and do not mind, is the primary key of the last row, as a JSON array of
// texts: rows of the same point in time come in its order.
type Offset struct {
	Incrementing *int64
	Timestamp    *time.Time
	Key          string
}

// MarshalJSON returns the flat object that Kafka's workers keep.
func (o Offset) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	if o.Incrementing != nil {
		text = fmt.Appendf(text, `"%s":%d`, incrementingName, *o.Incrementing)
	}
	if t := o.Timestamp; t != nil {
		if len(text) > 1 {
			text = append(text, ',')
		}
		// In Java nanoseconds count from the second that the milliseconds are in, before 1970 too.
		text = fmt.Appendf(text, `"%s":%d,"%s":%d`, timestampName, t.UnixMilli(), nanosName, t.Nanosecond())
	}
	if o.Key != "" {
		key, err := json.Marshal(o.Key)
		if err != nil {
			return nil, err
		}
		text = append(fmt.Appendf(text, `,"%s":`, keyName), key...)
	}
	return append(text, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON and the JDBC connectors write; other fields are an error.
func (o *Offset) UnmarshalJSON(text []byte) error {
	var fields struct {
		Incrementing *int64  `json:"incrementing"`
		Timestamp    *int64  `json:"timestamp"`
		Nanos        *int64  `json:"timestamp_nanos"`
		Key          *string `json:"key"`
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&fields); err != nil {
		return fmt.Errorf("%s, %s and %s are integers, %s is a text: %w", incrementingName, timestampName, nanosName, keyName, err)
	}
	*o = Offset{Incrementing: fields.Incrementing}
	if fields.Nanos != nil && (fields.Timestamp == nil || *fields.Nanos < 0 || *fields.Nanos >= 1e9) {
		return fmt.Errorf("%s goes with %s and is from 0 to 999999999", nanosName, timestampName)
	}
	if fields.Timestamp != nil {
		t := time.UnixMilli(*fields.Timestamp).UTC()
		if fields.Nanos != nil {
			t = time.Unix(t.Unix(), *fields.Nanos).UTC()
		}
		o.Timestamp = &t
	}
	if fields.Key == nil {
		return nil
	}
	o.Key = *fields.Key
	switch values, err := o.key(); {
	case err != nil:
		return err
	case len(values) == 0 || o.Timestamp == nil:
		return fmt.Errorf("%s goes with %s and is the JSON of at least one text", keyName, timestampName)
	}
	return nil
}

// key returns the values of Key.
func (o *Offset) key() ([]string, error) {
	if o.Key == "" {
		return nil, nil
	}
	var values []string
	if err := json.Unmarshal([]byte(o.Key), &values); err != nil {
		return nil, fmt.Errorf("%s %.100q is no JSON array of texts", keyName, o.Key)
	}
	return values, nil
}

// JoinKey returns the Key of an offset.
func JoinKey(values []string) (string, error) {
	text, err := json.Marshal(values)
	return string(text), err
}

// Check says why an offset cannot be one of a mode.
func (o *Offset) Check(m Mode) error {
	switch {
	case m == Bulk:
		return errors.New("mode bulk has no offsets")
	case m.HasIncrementing() && !m.HasTimestamp() && (o.Incrementing == nil || o.Timestamp != nil):
		return fmt.Errorf("mode %s wants %s alone", m, incrementingName)
	case m.HasTimestamp() && o.Timestamp == nil:
		return fmt.Errorf("mode %s wants %s", m, timestampName)
	case m == Timestamp && o.Incrementing != nil:
		return fmt.Errorf("mode %s has no %s", m, incrementingName)
	case m != Timestamp && o.Key != "":
		return fmt.Errorf("mode %s has no %s", m, keyName)
	case o.Timestamp != nil && (o.Timestamp.UnixMilli() == math.MaxInt64 || o.Timestamp.UnixMilli() == math.MinInt64):
		return fmt.Errorf("%s is out of bounds", timestampName)
	}
	return nil
}
