package top

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

// sample is one look at a cluster.
type sample struct {
	at         time.Time
	cluster    string
	nodes      []node
	partitions map[place]partition
	groups     map[string]group
}

type place struct {
	topic string
	id    int32
}

// partition is what metadata and its leader say; end is -1 where the leader does not.
type partition struct {
	internal   bool
	leader     int32
	replicas   []int32
	inSync     int
	start, end int64
}

type node struct {
	id      int32
	address string
}

type group struct {
	state     string
	committed map[place]int64
}

// take looks at the cluster. Groups that do not answer are left out, and named by an error that comes beside the sample.
func take(ctx context.Context, admin *kadm.Client) (*sample, error) {
	s := &sample{at: time.Now(), partitions: map[place]partition{}, groups: map[string]group{}}
	meta, err := admin.Metadata(ctx)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", exit.Answer(err, ""))
	}
	s.cluster = meta.Cluster
	for _, b := range meta.Brokers {
		s.nodes = append(s.nodes, node{b.NodeID, fmt.Sprintf("%s:%d", b.Host, b.Port)})
	}
	for _, t := range meta.Topics {
		for _, p := range t.Partitions {
			s.partitions[place{t.Topic, p.Partition}] = partition{internal: t.IsInternal, leader: p.Leader, replicas: p.Replicas, inSync: len(p.ISR), start: -1, end: -1}
		}
	}
	if names := slices.Sorted(maps.Keys(meta.Topics)); len(names) > 0 {
		starts, _ := admin.ListStartOffsets(ctx, names...)
		ends, _ := admin.ListEndOffsets(ctx, names...)
		for at, p := range s.partitions {
			p.start, p.end = bound(starts, at), bound(ends, at)
			s.partitions[at] = p
		}
	}
	return s, s.takeGroups(ctx, admin)
}

func (s *sample) takeGroups(ctx context.Context, admin *kadm.Client) error {
	listed, err := admin.ListGroups(ctx)
	if err != nil && len(listed) == 0 {
		return fmt.Errorf("groups: %w", exit.Answer(err, ""))
	}
	var all []error
	offsets := admin.FetchManyOffsets(ctx, listed.Groups()...)
	for id, g := range listed {
		answer := offsets[id]
		if answer.Err != nil {
			all = append(all, fmt.Errorf("group %q: %w", id, exit.Answer(answer.Err, "")))
			continue
		}
		committed := map[place]int64{}
		answer.Fetched.Each(func(o kadm.OffsetResponse) {
			if o.Err == nil && o.At >= 0 {
				committed[place{o.Topic, o.Partition}] = o.At
			}
		})
		s.groups[id] = group{state: g.State, committed: committed}
	}
	return errors.Join(all...)
}

func bound(offsets kadm.ListedOffsets, at place) int64 {
	if o, ok := offsets.Lookup(at.topic, at.id); ok && o.Err == nil {
		return o.Offset
	}
	return -1
}
