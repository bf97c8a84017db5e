package schema

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// Types of the records of consumer groups (KIP-848). All values are of version 0, which is flexible: what came later came
// as tagged fields.
const (
	consumerGroupMetadataType                 = 3
	consumerGroupPartitionMetadataType        = 4
	consumerGroupMemberMetadataType           = 5
	consumerGroupTargetMetadataType           = 6
	consumerGroupTargetMemberType             = 7
	consumerGroupCurrentAssignmentType        = 8
	consumerGroupRegularExpressionType        = 16
	consumerGroupValueVersion                 = 0
	consumerGroupFirstTag              uint32 = 0
)

func appendGroupKey(b []byte, number int16, strings ...string) []byte {
	b = kbin.AppendInt16(b, number)
	for _, s := range strings {
		b = kbin.AppendString(b, s)
	}
	return b
}

// readGroupKey reads as many strings as the key has after its type.
func readGroupKey(key []byte, strings ...*string) error {
	in := kbin.Reader{Src: key[2:]}
	for _, s := range strings {
		*s = in.String()
	}
	if err := in.Complete(); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	return nil
}

// valueReader is at the first field of a value.
func valueReader(value []byte) (*kbin.Reader, error) {
	if err := checkVersion(value, consumerGroupValueVersion); err != nil {
		return nil, err
	}
	return &kbin.Reader{Src: value[2:]}, nil
}

func complete(in *kbin.Reader) error {
	if err := in.Complete(); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	return nil
}

// appendTag appends the tagged fields of a structure that has at most one: tag 0. A nil field is absent.
func appendTag(b, field []byte) []byte {
	if field == nil {
		return kbin.AppendUvarint(b, 0)
	}
	b = kbin.AppendUvarint(b, 1)
	b = kbin.AppendUvarint(b, consumerGroupFirstTag)
	b = kbin.AppendUvarint(b, uint32(len(field)))
	return append(b, field...)
}

// readTag is the field with tag 0, nil when it is absent. Tags that are not known are passed over.
func readTag(in *kbin.Reader) []byte {
	var field []byte
	for n := in.Uvarint(); n > 0 && in.Ok(); n-- {
		tag := in.Uvarint()
		bytes := in.Span(int(in.Uvarint()))
		if tag == consumerGroupFirstTag {
			field = bytes
		}
	}
	return field
}

func appendOptional(b []byte, s string) []byte {
	if s == "" {
		return kbin.AppendCompactNullableString(b, nil)
	}
	return kbin.AppendCompactString(b, s)
}

func readOptional(in *kbin.Reader) string {
	if s := in.CompactNullableString(); s != nil {
		return *s
	}
	return ""
}

func appendStrings(b []byte, list []string) []byte {
	b = kbin.AppendCompactArrayLen(b, len(list))
	for _, s := range list {
		b = kbin.AppendCompactString(b, s)
	}
	return b
}

func readStrings(in *kbin.Reader) []string {
	var list []string
	for n := in.CompactArrayLen(); n > 0 && in.Ok(); n-- {
		list = append(list, in.CompactString())
	}
	return list
}

func appendInts(b []byte, list []int32) []byte {
	b = kbin.AppendCompactArrayLen(b, len(list))
	for _, i := range list {
		b = kbin.AppendInt32(b, i)
	}
	return b
}

func readInts(in *kbin.Reader) []int32 {
	var list []int32
	for n := in.CompactArrayLen(); n > 0 && in.Ok(); n-- {
		list = append(list, in.Int32())
	}
	return list
}

// inOrder are the topics of a map in order of id, so that what is written does not depend on the order of maps.
func inOrder[V any](m map[metadata.TopicID]V) []metadata.TopicID {
	return slices.SortedFunc(maps.Keys(m), compareTopicIDs)
}

func compareTopicIDs(a, b metadata.TopicID) int {
	return cmp.Or(cmp.Compare(binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(b[:8])),
		cmp.Compare(binary.BigEndian.Uint64(a[8:]), binary.BigEndian.Uint64(b[8:])))
}
