package position

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

// Partition names one partition of a topic.
type Partition struct {
	Topic string
	ID    int32
}

func (p Partition) String() string { return fmt.Sprintf("%s[%d]", p.Topic, p.ID) }

// Range is what of one partition to read: from Start up to but without End.
type Range struct {
	Start, End int64
}

// NoPartition says that a topic has only so many partitions.
func NoPartition(topic string, id int32, partitions int) error {
	return exit.With(exit.NotFound, fmt.Errorf("topic %q has no partition %d, only 0 to %d", topic, id, partitions-1))
}

// Resolver finds the offsets of partitions.
type Resolver struct {
	Admin *kadm.Client
	// Committed ends ranges at the last stable offset rather than the high watermark.
	Committed bool

	starts, ends kadm.ListedOffsets
}

// Resolve returns the range between two positions for every partition of topics, or for those with
// the ids given. Unknown topics and partitions, and an offset that lies in none of the partitions,
// are errors that name them.
func (r *Resolver) Resolve(ctx context.Context, topics []string, ids []int32, from, to Position) (map[Partition]Range, error) {
	partitions, err := r.partitions(ctx, topics, ids)
	if err != nil {
		return nil, err
	}
	if r.starts, err = r.Admin.ListStartOffsets(ctx, topics...); err != nil {
		return nil, fmt.Errorf("start offsets: %w", exit.Answer(err, ""))
	}
	list := r.Admin.ListEndOffsets
	if r.Committed {
		list = r.Admin.ListCommittedOffsets
	}
	if r.ends, err = list(ctx, topics...); err != nil {
		return nil, fmt.Errorf("end offsets: %w", exit.Answer(err, ""))
	}
	starts, err := r.offsets(ctx, topics, partitions, from)
	if err != nil {
		return nil, err
	}
	ends, err := r.offsets(ctx, topics, partitions, to)
	if err != nil {
		return nil, err
	}
	ranges := make(map[Partition]Range, len(partitions))
	for _, p := range partitions {
		ranges[p] = Range{starts[p], ends[p]}
	}
	return ranges, r.check(ranges, from)
}

func (r *Resolver) partitions(ctx context.Context, topics []string, ids []int32) ([]Partition, error) {
	details, err := r.Admin.ListTopics(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", exit.Answer(err, ""))
	}
	var all []Partition
	for _, topic := range topics {
		detail := details[topic]
		if detail.Err != nil {
			return nil, fmt.Errorf("topic %q: %w", topic, exit.Answer(detail.Err, ""))
		}
		chosen := ids
		if len(chosen) == 0 {
			chosen = slices.Sorted(maps.Keys(detail.Partitions))
		}
		for _, id := range chosen {
			if _, ok := detail.Partitions[id]; !ok {
				return nil, NoPartition(topic, id, len(detail.Partitions))
			}
			all = append(all, Partition{topic, id})
		}
	}
	return all, nil
}

// offsets resolves one position. Offsets before the start or after the end of a partition become the
// start or the end.
func (r *Resolver) offsets(ctx context.Context, topics []string, partitions []Partition, at Position) (map[Partition]int64, error) {
	var timed kadm.ListedOffsets
	if at.kind == atTime {
		var err error
		if timed, err = r.Admin.ListOffsetsAfterMilli(ctx, at.n, topics...); err != nil {
			return nil, fmt.Errorf("offsets at %s: %w", at.text, exit.Answer(err, ""))
		}
	}
	offsets := make(map[Partition]int64, len(partitions))
	for _, p := range partitions {
		start, end, err := r.bounds(p)
		if err != nil {
			return nil, err
		}
		offset := start
		switch at.kind {
		case ending:
			offset = end
		case absolute:
			offset = at.n
		case last:
			offset = end - at.n
		case atTime:
			found, ok := timed.Lookup(p.Topic, p.ID)
			if err := cmp.Or(found.Err, missing(ok)); err != nil {
				return nil, fmt.Errorf("offset of %s at %s: %w", p, at.text, exit.Answer(err, ""))
			}
			offset = found.Offset
		}
		offsets[p] = min(max(offset, start), end)
	}
	return offsets, nil
}

func (r *Resolver) bounds(p Partition) (start, end int64, err error) {
	first, ok := r.starts.Lookup(p.Topic, p.ID)
	if err := cmp.Or(first.Err, missing(ok)); err != nil {
		return 0, 0, fmt.Errorf("start offset of %s: %w", p, exit.Answer(err, ""))
	}
	next, ok := r.ends.Lookup(p.Topic, p.ID)
	if err := cmp.Or(next.Err, missing(ok)); err != nil {
		return 0, 0, fmt.Errorf("end offset of %s: %w", p, exit.Answer(err, ""))
	}
	return first.Offset, next.Offset, nil
}

func missing(ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("the cluster did not answer for this partition")
}

// check refuses to start at an offset that no partition has.
func (r *Resolver) check(ranges map[Partition]Range, from Position) error {
	if from.kind != absolute {
		return nil
	}
	var outside error
	for p := range ranges {
		start, end, _ := r.bounds(p)
		if start <= from.n && from.n <= end {
			return nil
		}
		outside = exit.With(exit.NotFound, fmt.Errorf("%s has no offset %d, only %d to %d", p, from.n, start, end))
	}
	return outside
}
