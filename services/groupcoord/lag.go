package groupcoord

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assign"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/lag"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// watchConfig is that of the lag metrics; without metrics nobody looks.
func watchConfig(cfg Config, deps Deps) lag.WatchConfig {
	c := lag.WatchConfig{Every: cfg.Static.DurationMs("group.lag.interval.ms"), Most: cfg.Static.Int("group.lag.max.partitions")}
	if deps.Metrics == nil {
		c.Every = 0
	}
	return c
}

// survey lists the groups of all shards of this node, always in the same order, so that with too many of them the same are left out.
func (s *Service) survey(room int) (groups []shard.Standing, left int) {
	for id := range s.node.Image().Shards(metadata.ConsumerOffsetsTopic) {
		s.runtime.Run(trace.SpanContext{}, id, func(m *shard.Machine, _ time.Time) coordinator.Step {
			some, more := m.Survey(room)
			for i := range some {
				room -= some[i].Entries()
			}
			groups, left = append(groups, some...), left+more
			return coordinator.Step{Producer: coordinator.NoProducer}
		})
	}
	return groups, left
}

// offsetFetchVersion is one that names topics and several groups.
const offsetFetchVersion = 9

// measureLag is how far the group of a question, which is in that shard, is behind.
func (s *Service) measureLag(id int32, in *assignment.Input) assign.Lag {
	return func(ctx context.Context) [][]int64 {
		return s.meter.Measure(ctx, in.Topics, s.committed(ctx, id, in))
	}
}

// committed are the group's committed offsets by topic of the question and by partition, as far as they are known.
func (s *Service) committed(ctx context.Context, id int32, in *assignment.Input) [][]int64 {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = offsetFetchVersion
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = in.Group
	offsets := make([][]int64, len(in.Topics))
	places := make(map[string]int, len(in.Topics))
	for i, t := range in.Topics {
		places[t.Name] = i
		offsets[i] = slices.Repeat([]int64{lag.Unknown}, int(t.Count))
		asked := kmsg.OffsetFetchRequestGroupTopic{Topic: t.Name}
		for p := range t.Count {
			asked.Partitions = append(asked.Partitions, p)
		}
		group.Topics = append(group.Topics, asked)
	}
	req.Groups = []kmsg.OffsetFetchRequestGroup{group}
	answers := make(chan *kmsg.OffsetFetchResponse, 1)
	s.runtime.Do(trace.SpanContextFromContext(ctx), id, func(m *shard.Machine, now time.Time, t coordinator.Ticket) coordinator.Step {
		return m.OffsetFetch(now, t, req)
	}, func(response any, _ error) {
		answer, _ := response.(*kmsg.OffsetFetchResponse) // nil if the shard is gone, and the answer to the question with it
		answers <- answer
	})
	select {
	case answer := <-answers:
		take(offsets, places, answer)
	case <-ctx.Done():
	}
	return offsets
}

func take(offsets [][]int64, places map[string]int, answer *kmsg.OffsetFetchResponse) {
	if answer == nil {
		return
	}
	for _, g := range answer.Groups {
		for _, t := range g.Topics {
			i, ok := places[t.Topic]
			for _, p := range t.Partitions {
				if ok && p.ErrorCode == 0 && p.Partition >= 0 && int(p.Partition) < len(offsets[i]) {
					if offsets[i][p.Partition] = p.Offset; p.Offset < 0 {
						offsets[i][p.Partition] = lag.Uncommitted
					}
				}
			}
		}
	}
}
