package snapshot

import (
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Partitions is a set of partitions: topics and the partitions of each in ascending order.
type Partitions []TopicPartitions

// TopicPartitions is the partitions of one topic.
type TopicPartitions struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

func partitions(set kadm.TopicsSet) Partitions {
	all := make(Partitions, 0, len(set))
	for _, topic := range set.Sorted() {
		all = append(all, TopicPartitions(topic))
	}
	return all
}

// Has says whether a partition is in the set.
func (p Partitions) Has(topic string, partition int32) bool {
	for _, t := range p {
		if t.Topic == topic {
			return slices.Contains(t.Partitions, partition)
		}
	}
	return false
}

// Without returns what is in the set, but not in the other.
func (p Partitions) Without(other Partitions) Partitions {
	var rest Partitions
	for _, t := range p {
		var left []int32
		for _, partition := range t.Partitions {
			if !other.Has(t.Topic, partition) {
				left = append(left, partition)
			}
		}
		if len(left) > 0 {
			rest = append(rest, TopicPartitions{t.Topic, left})
		}
	}
	return rest
}

// String words the set as --topic flags take it, with runs of partitions joined: "clicks:3 orders:0-4,7".
func (p Partitions) String() string {
	texts := make([]string, len(p))
	for i, t := range p {
		texts[i] = t.Topic + ":" + runs(t.Partitions)
	}
	return strings.Join(texts, " ")
}

func runs(ids []int32) string {
	var b strings.Builder
	for i := 0; i < len(ids); {
		end := i
		for end+1 < len(ids) && ids[end+1] == ids[end]+1 {
			end++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(ids[i])))
		if end > i {
			b.WriteString("-" + strconv.Itoa(int(ids[end])))
		}
		i = end + 1
	}
	return b.String()
}
