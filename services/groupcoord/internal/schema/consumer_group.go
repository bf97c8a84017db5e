package schema

import (
	"github.com/twmb/franz-go/pkg/kbin"
)

// ConsumerGroupMetadata is a consumer group; without Value it is gone.
type ConsumerGroupMetadata struct {
	Group string
	Value *GroupEpoch
}

// GroupEpoch is how often what an assignor looks at has changed.
type GroupEpoch struct {
	// Epoch starts at 1.
	Epoch int32
	// MetadataHash is a digest of the topics that the group subscribes to; 0 when there are none. It only has meaning to whoever
	// wrote it: another one causes one more epoch.
	MetadataHash int64
}

func (r *ConsumerGroupMetadata) appendKey(b []byte) []byte {
	return appendGroupKey(b, consumerGroupMetadataType, r.Group)
}

func (r *ConsumerGroupMetadata) appendValue(b []byte) ([]byte, bool) {
	if r.Value == nil {
		return b, false
	}
	b = kbin.AppendInt16(b, consumerGroupValueVersion)
	b = kbin.AppendInt32(b, r.Value.Epoch)
	return appendTag(b, nonZero(r.Value.MetadataHash)), true
}

// nonZero is an int64 as a tagged field, which is absent when it is zero.
func nonZero(i int64) []byte {
	if i == 0 {
		return nil
	}
	return kbin.AppendInt64(nil, i)
}

// readInt64Tag is the int64 with tag 0; 0 when it is absent.
func readInt64Tag(in *kbin.Reader) (int64, error) {
	field := readTag(in)
	if err := complete(in); err != nil || field == nil {
		return 0, err
	}
	tagged := kbin.Reader{Src: field}
	i := tagged.Int64()
	return i, complete(&tagged)
}

func decodeConsumerGroupMetadata(key, value []byte) (Record, error) {
	r := &ConsumerGroupMetadata{}
	if err := readGroupKey(key, &r.Group); err != nil || value == nil {
		return r, err
	}
	in, err := valueReader(value)
	if err != nil {
		return nil, err
	}
	r.Value = &GroupEpoch{Epoch: in.Int32()}
	r.Value.MetadataHash, err = readInt64Tag(in)
	return r, err
}

// ConsumerGroupPartitionMetadata is what Apache Kafka before 4.1 knew of a group's topics. It is not written any more but
// for tombstones.
type ConsumerGroupPartitionMetadata struct {
	Group string
	// Value is as it was written; nil for a tombstone.
	Value []byte
}

func (r *ConsumerGroupPartitionMetadata) appendKey(b []byte) []byte {
	return appendGroupKey(b, consumerGroupPartitionMetadataType, r.Group)
}

func (r *ConsumerGroupPartitionMetadata) appendValue(b []byte) ([]byte, bool) {
	return append(b, r.Value...), r.Value != nil
}

func decodeConsumerGroupPartitionMetadata(key, value []byte) (Record, error) {
	r := &ConsumerGroupPartitionMetadata{}
	if err := readGroupKey(key, &r.Group); err != nil || value == nil {
		return r, err
	}
	if err := checkVersion(value, consumerGroupValueVersion); err != nil {
		return nil, err
	}
	r.Value = append([]byte{}, value...)
	return r, nil
}

// ConsumerGroupRegularExpression is what a regular expression that members subscribe to matched; without Value nobody
// subscribes to it any more.
type ConsumerGroupRegularExpression struct {
	Group, Expression string
	Value             *ResolvedExpression
}

// ResolvedExpression are the topics that match a regular expression.
type ResolvedExpression struct {
	// Topics are in ascending order.
	Topics []string
	// Version is the offset of the metadata image that was searched.
	Version int64
	// TimestampMs is when, in milliseconds since 1970.
	TimestampMs int64
}

func (r *ConsumerGroupRegularExpression) appendKey(b []byte) []byte {
	return appendGroupKey(b, consumerGroupRegularExpressionType, r.Group, r.Expression)
}

func (r *ConsumerGroupRegularExpression) appendValue(b []byte) ([]byte, bool) {
	if r.Value == nil {
		return b, false
	}
	b = kbin.AppendInt16(b, consumerGroupValueVersion)
	b = appendStrings(b, r.Value.Topics)
	b = kbin.AppendInt64(b, r.Value.Version)
	b = kbin.AppendInt64(b, r.Value.TimestampMs)
	return appendTag(b, nil), true
}

func decodeConsumerGroupRegularExpression(key, value []byte) (Record, error) {
	r := &ConsumerGroupRegularExpression{}
	if err := readGroupKey(key, &r.Group, &r.Expression); err != nil || value == nil {
		return r, err
	}
	in, err := valueReader(value)
	if err != nil {
		return nil, err
	}
	r.Value = &ResolvedExpression{Topics: readStrings(in), Version: in.Int64(), TimestampMs: in.Int64()}
	readTag(in)
	return r, complete(in)
}
