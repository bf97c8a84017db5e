package schema

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
)

// ConsumerGroupTargetAssignmentMetadata says which group epoch the target assignment is for; without Value there is no
// target assignment.
type ConsumerGroupTargetAssignmentMetadata struct {
	Group string
	Value *TargetEpoch
}

// TargetEpoch is the age of a target assignment.
type TargetEpoch struct {
	// Epoch is the group epoch that it was computed for.
	Epoch int32
	// TimestampMs is when it was computed, in milliseconds since 1970; 0 when that is not known.
	TimestampMs int64
}

func (r *ConsumerGroupTargetAssignmentMetadata) appendKey(b []byte) []byte {
	return appendGroupKey(b, consumerGroupTargetMetadataType, r.Group)
}

func (r *ConsumerGroupTargetAssignmentMetadata) appendValue(b []byte) ([]byte, bool) {
	if r.Value == nil {
		return b, false
	}
	b = kbin.AppendInt16(b, consumerGroupValueVersion)
	b = kbin.AppendInt32(b, r.Value.Epoch)
	return appendTag(b, nonZero(r.Value.TimestampMs)), true
}

func decodeConsumerGroupTargetMetadata(key, value []byte) (Record, error) {
	r := &ConsumerGroupTargetAssignmentMetadata{}
	if err := readGroupKey(key, &r.Group); err != nil || value == nil {
		return r, err
	}
	in, err := valueReader(value)
	if err != nil {
		return nil, err
	}
	r.Value = &TargetEpoch{Epoch: in.Int32()}
	r.Value.TimestampMs, err = readInt64Tag(in)
	return r, err
}

// ConsumerGroupTargetAssignmentMember is the target assignment of a member.
type ConsumerGroupTargetAssignmentMember struct {
	Group, Member string
	// Partitions are empty for a member that is to have nothing, nil for one that is not in the target assignment.
	Partitions assignment.Partitions
}

func (r *ConsumerGroupTargetAssignmentMember) appendKey(b []byte) []byte {
	return appendGroupKey(b, consumerGroupTargetMemberType, r.Group, r.Member)
}

func (r *ConsumerGroupTargetAssignmentMember) appendValue(b []byte) ([]byte, bool) {
	if r.Partitions == nil {
		return b, false
	}
	b = kbin.AppendInt16(b, consumerGroupValueVersion)
	b = kbin.AppendCompactArrayLen(b, len(r.Partitions))
	for _, id := range inOrder(r.Partitions) {
		b = kbin.AppendUuid(b, id)
		b = appendInts(b, r.Partitions[id])
		b = appendTag(b, nil)
	}
	return appendTag(b, nil), true
}

func decodeConsumerGroupTargetMember(key, value []byte) (Record, error) {
	r := &ConsumerGroupTargetAssignmentMember{}
	if err := readGroupKey(key, &r.Group, &r.Member); err != nil || value == nil {
		return r, err
	}
	in, err := valueReader(value)
	if err != nil {
		return nil, err
	}
	r.Partitions = assignment.Partitions{}
	for n := in.CompactArrayLen(); n > 0 && in.Ok(); n-- {
		id := metadata.TopicID(in.Uuid())
		partitions := readInts(in)
		readTag(in)
		// Apache Kafka writes partitions in the order of its sets.
		slices.Sort(partitions)
		if partitions = slices.Compact(partitions); len(partitions) > 0 {
			r.Partitions[id] = partitions
		}
	}
	readTag(in)
	return r, complete(in)
}

// MemberState is how far a member is on its way to its target assignment.
type MemberState int8

// States of a member. Others are those of a newer version.
const (
	// Stable members have what they are to have at their epoch.
	Stable MemberState = 0
	// Unrevoked members have to give up partitions first.
	Unrevoked MemberState = 1
	// Unreleased members wait for partitions that others have to give up.
	Unreleased MemberState = 2
)

// ConsumerGroupCurrentMemberAssignment is what a member has now; without Value it has nothing and no epoch.
type ConsumerGroupCurrentMemberAssignment struct {
	Group, Member string
	Value         *CurrentAssignment
}

// CurrentAssignment is what a member was told to have and has not given up.
type CurrentAssignment struct {
	// Epoch is that which the member is expected to name, Previous that which it may still name when an answer got lost.
	Epoch, Previous int32
	State           MemberState
	// Assigned are the member's partitions, Revoking those that it still has to give up.
	Assigned, Revoking OwnedPartitions
}

// OwnedPartitions are partitions by topic, with the member epoch at which the member got each. No topic is empty.
type OwnedPartitions map[metadata.TopicID]map[int32]int32

func (r *ConsumerGroupCurrentMemberAssignment) appendKey(b []byte) []byte {
	return appendGroupKey(b, consumerGroupCurrentAssignmentType, r.Group, r.Member)
}

func (r *ConsumerGroupCurrentMemberAssignment) appendValue(b []byte) ([]byte, bool) {
	if r.Value == nil {
		return b, false
	}
	b = kbin.AppendInt16(b, consumerGroupValueVersion)
	b = kbin.AppendInt32(b, r.Value.Epoch)
	b = kbin.AppendInt32(b, r.Value.Previous)
	b = kbin.AppendInt8(b, int8(r.Value.State))
	b = appendOwned(b, r.Value.Assigned)
	b = appendOwned(b, r.Value.Revoking)
	return appendTag(b, nil), true
}

func appendOwned(b []byte, o OwnedPartitions) []byte {
	b = kbin.AppendCompactArrayLen(b, len(o))
	for _, id := range inOrder(o) {
		partitions := slices.Sorted(maps.Keys(o[id]))
		epochs := make([]int32, len(partitions))
		for i, p := range partitions {
			epochs[i] = o[id][p]
		}
		b = kbin.AppendUuid(b, id)
		b = appendInts(b, partitions)
		b = appendTag(b, appendInts(nil, epochs))
	}
	return b
}

// readOwned reads partitions. Where a record of Apache Kafka before 4.3 has no epochs, that of the member stands for them.
func readOwned(in *kbin.Reader, memberEpoch int32) (OwnedPartitions, error) {
	o := OwnedPartitions{}
	for n := in.CompactArrayLen(); n > 0 && in.Ok(); n-- {
		id := metadata.TopicID(in.Uuid())
		partitions := readInts(in)
		var epochs []int32
		if field := readTag(in); field != nil {
			tagged := kbin.Reader{Src: field}
			if epochs = readInts(&tagged); !tagged.Ok() {
				return nil, complete(&tagged)
			}
		}
		if len(partitions) > 0 && o[id] == nil {
			o[id] = make(map[int32]int32, len(partitions))
		}
		for i, p := range partitions {
			o[id][p] = max(memberEpoch, 0)
			if len(epochs) == len(partitions) {
				o[id][p] = epochs[i]
			}
		}
	}
	return o, complete(in)
}

func decodeConsumerGroupCurrentAssignment(key, value []byte) (Record, error) {
	r := &ConsumerGroupCurrentMemberAssignment{}
	if err := readGroupKey(key, &r.Group, &r.Member); err != nil || value == nil {
		return r, err
	}
	in, err := valueReader(value)
	if err != nil {
		return nil, err
	}
	v := &CurrentAssignment{Epoch: in.Int32(), Previous: in.Int32(), State: MemberState(in.Int8())}
	if v.Assigned, err = readOwned(in, v.Epoch); err != nil {
		return nil, err
	}
	if v.Revoking, err = readOwned(in, v.Epoch); err != nil {
		return nil, err
	}
	readTag(in)
	if err := complete(in); err != nil {
		return nil, err
	}
	r.Value = v
	return r, nil
}
