package group

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/position"
)

// scope is a flag value: topics, or partitions of topics.
type scope struct {
	texts  []string
	topics map[string][]int32 // no partitions: all
}

// Set adds TOPIC or TOPIC:P,….
func (s *scope) Set(text string) error {
	topic, list, some := strings.Cut(text, ":")
	if topic == "" {
		return fmt.Errorf("must be TOPIC or TOPIC:PARTITION,…")
	}
	var ids []int32
	if some {
		for field := range strings.SplitSeq(list, ",") {
			id, err := strconv.ParseInt(field, 10, 32)
			if err != nil || id < 0 {
				return fmt.Errorf("%q is no partition; must be TOPIC or TOPIC:PARTITION,…", field)
			}
			ids = append(ids, int32(id))
		}
	}
	s.add(topic, ids)
	s.texts = append(s.texts, text)
	return nil
}

// add adds partitions of a topic, all of them if there are none.
func (s *scope) add(topic string, ids []int32) {
	if s.topics == nil {
		s.topics = make(map[string][]int32)
	}
	before, again := s.topics[topic]
	if again && (len(before) == 0 || len(ids) == 0) {
		ids = nil // all of a topic and some of it are all of it
	} else {
		ids = append(before, ids...)
	}
	s.topics[topic] = ids
}

func (s *scope) String() string { return strings.Join(s.texts, " ") }

// Type names the value in help texts.
func (s *scope) Type() string { return "TOPIC[:P,…]" }

func (s *scope) names() []string {
	return slices.Sorted(maps.Keys(s.topics))
}

// partitions returns the partitions that are meant, in order. Those that the cluster does not have are errors.
func (s *scope) partitions(ctx context.Context, admin *kadm.Client) ([]position.Partition, error) {
	names := s.names()
	if len(names) == 0 {
		return nil, nil // no topics would mean all of the cluster's
	}
	details, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", exit.Answer(err, ""))
	}
	var all []position.Partition
	for _, topic := range names {
		detail := details[topic]
		if detail.Err != nil {
			return nil, fmt.Errorf("topic %q: %w", topic, exit.Answer(detail.Err, ""))
		}
		ids := s.topics[topic]
		if len(ids) == 0 {
			ids = detail.Partitions.Numbers()
		}
		for _, id := range ids {
			if _, ok := detail.Partitions[id]; !ok {
				return nil, position.NoPartition(topic, id, len(detail.Partitions))
			}
			all = append(all, position.Partition{Topic: topic, ID: id})
		}
	}
	return sorted(all), nil
}

func sorted(all []position.Partition) []position.Partition {
	slices.SortFunc(all, func(a, b position.Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID, b.ID))
	})
	return slices.Compact(all)
}
