package schema

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// Types of records and versions of values that are written, as of Apache Kafka 4.4.
const (
	offsetCommitType         = 1
	offsetCommitVersion      = 4
	offsetCommitExpiring     = 1 // the one version with an expiry of the offset's own
	offsetCommitLeaderEpochs = 3 // the first version with leader epochs
	groupMetadataType        = 2
	groupMetadataVersion     = 3
	groupMetadataHighest     = 4
)

// OffsetCommit is what a group committed for a partition; without Value there is nothing any more.
type OffsetCommit struct {
	Group, Topic string
	Partition    int32
	Value        *OffsetValue
}

// OffsetValue is a committed offset.
type OffsetValue struct {
	Offset int64
	// LeaderEpoch is that of the last record consumed; -1 when the client did not say.
	LeaderEpoch int32
	// Metadata is the client's text.
	Metadata string
	// CommitTimestampMs is when it was committed, in milliseconds since 1970.
	CommitTimestampMs int64
	// ExpireTimestampMs is when it expires, in milliseconds since 1970; -1 where the group's rules decide. Only clients
	// before KIP-211 ask for a time of their own.
	ExpireTimestampMs int64
	// TopicID is zero in records older than topic ids in offsets.
	TopicID metadata.TopicID
}

func (r *OffsetCommit) appendKey(b []byte) []byte {
	key := kmsg.OffsetCommitKey{Version: offsetCommitType, Group: r.Group, Topic: r.Topic, Partition: r.Partition}
	return key.AppendTo(b)
}

func (r *OffsetCommit) appendValue(b []byte) ([]byte, bool) {
	if r.Value == nil {
		return b, false
	}
	v := kmsg.OffsetCommitValue{
		Version:         offsetCommitVersion,
		Offset:          r.Value.Offset,
		LeaderEpoch:     r.Value.LeaderEpoch,
		Metadata:        r.Value.Metadata,
		CommitTimestamp: r.Value.CommitTimestampMs,
		ExpireTimestamp: r.Value.ExpireTimestampMs,
		TopicID:         r.Value.TopicID,
	}
	if v.ExpireTimestamp >= 0 {
		v.Version = offsetCommitExpiring
	}
	return v.AppendTo(b), true
}

func decodeOffsetCommit(key, value []byte) (Record, error) {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(key); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	r := &OffsetCommit{Group: k.Group, Topic: k.Topic, Partition: k.Partition}
	if value == nil {
		return r, nil
	}
	if err := checkVersion(value, offsetCommitVersion); err != nil {
		return nil, err
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(value); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	r.Value = &OffsetValue{
		Offset:            v.Offset,
		LeaderEpoch:       v.LeaderEpoch,
		Metadata:          v.Metadata,
		CommitTimestampMs: v.CommitTimestamp,
		ExpireTimestampMs: v.ExpireTimestamp,
		TopicID:           v.TopicID,
	}
	if v.Version < offsetCommitLeaderEpochs {
		r.Value.LeaderEpoch = -1
	}
	if v.Version != offsetCommitExpiring || v.ExpireTimestamp < 0 {
		r.Value.ExpireTimestampMs = -1
	}
	return r, nil
}

// GroupMetadata is a classic group at the end of a rebalance; without Value the group is gone.
type GroupMetadata struct {
	Group string
	// Value has its Version set by Encode.
	Value *kmsg.GroupMetadataValue
}

func (r *GroupMetadata) appendKey(b []byte) []byte {
	key := kmsg.GroupMetadataKey{Version: groupMetadataType, Group: r.Group}
	return key.AppendTo(b)
}

func (r *GroupMetadata) appendValue(b []byte) ([]byte, bool) {
	if r.Value == nil {
		return b, false
	}
	v := *r.Value
	v.Version = groupMetadataVersion
	return v.AppendTo(b), true
}

func decodeGroupMetadata(key, value []byte) (Record, error) {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	r := &GroupMetadata{Group: k.Group}
	if value == nil {
		return r, nil
	}
	if err := checkVersion(value, groupMetadataHighest); err != nil {
		return nil, err
	}
	r.Value = &kmsg.GroupMetadataValue{}
	// The bytes of members point into what is read.
	if err := r.Value.ReadFrom(slices.Clone(value)); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	return r, nil
}
