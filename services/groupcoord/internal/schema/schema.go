// Package schema is the records of __consumer_offsets in Apache Kafka's own format (group-coordinator's
// common/message/*Key.json and *Value.json): what Burrow, kminion and Kafka's formatters read.
//
// A key starts with the number of the record's type, a value with the version of its schema.
package schema

import "github.com/cauce-stream/cauce/libs/coordinator"

// Record is one record: a key, and a value or a tombstone. The types of this package are its only implementations; what
// they hold is not changed after it was emitted or decoded.
type Record interface {
	appendKey(b []byte) []byte
	// appendValue appends nothing and says false for a tombstone.
	appendValue(b []byte) ([]byte, bool)
}

// Encode is a record as the log has it.
func Encode(r Record) coordinator.Record {
	out := coordinator.Record{Key: r.appendKey(nil)}
	if value, ok := r.appendValue([]byte{}); ok {
		out.Value = value
	}
	return out
}
