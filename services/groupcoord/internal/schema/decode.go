package schema

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cauce-stream/cauce/libs/coordinator"
)

// ErrUnknownType is wrapped by what Decode says of a record whose type it does not know: one that a newer version, or
// another kind of group, wrote. Whoever loads a shard passes over such records, as Apache Kafka does.
var ErrUnknownType = errors.New("unknown type of record")

// decoder makes a record of a key, which starts with the type, and a value, nil for a tombstone.
type decoder func(key, value []byte) (Record, error)

// decoders are the types of records by the number that starts their keys.
var decoders = map[int16]decoder{
	0: decodeOffsetCommit,
	1: decodeOffsetCommit,
	2: decodeGroupMetadata,

	consumerGroupMetadataType:          decodeConsumerGroupMetadata,
	consumerGroupPartitionMetadataType: decodeConsumerGroupPartitionMetadata,
	consumerGroupMemberMetadataType:    decodeConsumerGroupMemberMetadata,
	consumerGroupTargetMetadataType:    decodeConsumerGroupTargetMetadata,
	consumerGroupTargetMemberType:      decodeConsumerGroupTargetMember,
	consumerGroupCurrentAssignmentType: decodeConsumerGroupCurrentAssignment,
	consumerGroupRegularExpressionType: decodeConsumerGroupRegularExpression,
}

// Decode is the record that the log has in Encode's form. What it returns shares no memory with r.
func Decode(r coordinator.Record) (Record, error) {
	if len(r.Key) < 2 {
		return nil, fmt.Errorf("key of %d bytes has no type", len(r.Key))
	}
	number := int16(binary.BigEndian.Uint16(r.Key))
	decode, ok := decoders[number]
	if !ok {
		return nil, fmt.Errorf("%w: %d", ErrUnknownType, number)
	}
	record, err := decode(r.Key, r.Value)
	if err != nil {
		return nil, fmt.Errorf("record of type %d: %w", number, err)
	}
	return record, nil
}

// checkVersion refuses values of schemas newer than the package knows: reading them as older ones would misread them.
func checkVersion(value []byte, highest int16) error {
	if len(value) < 2 {
		return fmt.Errorf("value of %d bytes has no version", len(value))
	}
	if v := int16(binary.BigEndian.Uint16(value)); v < 0 || v > highest {
		return fmt.Errorf("value has version %d, known are 0 to %d", v, highest)
	}
	return nil
}
