package offsets

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The fields by which REST shows where a sink stands (KIP-875).
const (
	topicField     = "kafka_topic"
	partitionField = "kafka_partition"
	offsetField    = "kafka_offset"
)

// TopicPartition is a partition that a sink consumes.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Forget stands for an offset that is to be deleted.
const Forget int64 = -1

// ErrShape is wrapped by what ParseSink says of entries that do not describe where a sink stands.
var ErrShape = errors.New("not the offset of a sink")

// ParseSink reads entries as {"kafka_topic","kafka_partition"} and {"kafka_offset"}, numbers being given as such or as text. A nil offset is
// Forget. Of two entries for one partition the later counts.
func ParseSink(entries []Entry) (map[TopicPartition]int64, error) {
	parsed := make(map[TopicPartition]int64, len(entries))
	for _, e := range entries {
		tp, err := parseTopicPartition(e.Partition)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrShape, err)
		}
		if e.Offset == nil {
			parsed[tp] = Forget
			continue
		}
		value, ok := e.Offset[offsetField]
		if !ok {
			return nil, fmt.Errorf("%w: the offset of %s-%d has no %s", ErrShape, tp.Topic, tp.Partition, offsetField)
		}
		if parsed[tp], err = number(value, math.MaxInt64); err != nil {
			return nil, fmt.Errorf("%w: %s of %s-%d: %w", ErrShape, offsetField, tp.Topic, tp.Partition, err)
		}
	}
	return parsed, nil
}

func parseTopicPartition(m Map) (TopicPartition, error) {
	topic, ok := m[topicField].(string)
	if !ok || topic == "" {
		return TopicPartition{}, fmt.Errorf("a partition needs a %s", topicField)
	}
	value, ok := m[partitionField]
	if !ok {
		return TopicPartition{}, fmt.Errorf("a partition of topic %q needs a %s", topic, partitionField)
	}
	n, err := number(value, math.MaxInt32)
	if err != nil {
		return TopicPartition{}, fmt.Errorf("%s of topic %q: %w", partitionField, topic, err)
	}
	return TopicPartition{topic, int32(n)}, nil
}

// number reads a whole number from 0 to most.
func number(value any, most int64) (int64, error) {
	n, ok := value.(int64)
	if text, isText := value.(string); isText {
		parsed, err := strconv.ParseInt(text, 10, 64)
		n, ok = parsed, err == nil
	}
	if !ok || n < 0 || n > most {
		return 0, fmt.Errorf("%v is not a whole number from 0 to %d", value, most)
	}
	return n, nil
}

// SinkEntries shows where a sink stands, in order of topic and partition.
func SinkEntries(offsets map[TopicPartition]int64) []Entry {
	order := slices.SortedFunc(maps.Keys(offsets), func(a, b TopicPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	entries := make([]Entry, len(order))
	for i, tp := range order {
		entries[i] = Entry{Map{topicField: tp.Topic, partitionField: int64(tp.Partition)}, Map{offsetField: offsets[tp]}}
	}
	return entries
}
