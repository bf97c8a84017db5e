package snapshot

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Offset is how far a group has come in one partition. Offsets are -1 where there is none or it is unknown.
type Offset struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Committed   int64  `json:"committed_offset"`
	LeaderEpoch int32  `json:"leader_epoch"` // of the record before the committed offset; -1: not told
	Metadata    string `json:"metadata"`     // what the member wrote beside the offset
	Start       int64  `json:"start_offset"`
	End         int64  `json:"end_offset"`
	Stable      int64  `json:"last_stable_offset"` // how far consumers of committed records can read
	Lag         int64  `json:"lag"`                // from Committed to End; -1 while either is unknown
	Subscribed  bool   `json:"subscribed"`         // whether a member subscribes to the topic
	// Member is who owns the partition, "" if nobody does.
	Member   string `json:"member_id"`
	ClientID string `json:"client_id"`
	Host     string `json:"host"`
}

type key struct {
	topic     string
	partition int32
}

// Offsets returns the partitions for which a group has committed an offset, those that its members own, and all others of the
// topics that its members subscribe to, in order.
func Offsets(ctx context.Context, admin *kadm.Client, group Group) ([]Offset, error) {
	committed, err := admin.FetchOffsets(ctx, group.ID)
	if err != nil {
		return nil, err
	}
	all := make(map[key]Offset)
	for _, o := range committed.Sorted() {
		if o.Err != nil {
			return nil, o.Err
		}
		if o.At >= 0 {
			all[key{o.Topic, o.Partition}] = Offset{Committed: o.At, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata}
		}
	}
	uncommitted := Offset{Committed: -1, LeaderEpoch: -1}
	subscribed := make(map[string]bool)
	for _, m := range group.Members {
		for _, topic := range m.Topics {
			subscribed[topic] = true
		}
		for _, t := range m.Assigned {
			subscribed[t.Topic] = true // a regex does not tell the topics that it matches
			for _, p := range t.Partitions {
				o, ok := all[key{t.Topic, p}]
				if !ok {
					o = uncommitted
				}
				o.Member, o.ClientID, o.Host = m.ID, m.ClientID, m.Host
				all[key{t.Topic, p}] = o
			}
		}
	}
	if err := addOthers(ctx, admin, all, uncommitted, subscribed); err != nil {
		return nil, err
	}
	return withBounds(ctx, admin, all, subscribed), nil
}

// addOthers adds the partitions of subscribed topics that nobody owns. Topics that do not exist have none.
func addOthers(ctx context.Context, admin *kadm.Client, all map[key]Offset, uncommitted Offset, subscribed map[string]bool) error {
	if len(subscribed) == 0 {
		return nil
	}
	details, err := admin.ListTopics(ctx, slices.Sorted(maps.Keys(subscribed))...)
	if err != nil {
		return err
	}
	for topic, detail := range details {
		for p := range detail.Partitions {
			if _, ok := all[key{topic, p}]; !ok {
				all[key{topic, p}] = uncommitted
			}
		}
	}
	return nil
}

// withBounds adds where the logs start and end, as far as their leaders answer: a group in trouble is what this is looked at for.
func withBounds(ctx context.Context, admin *kadm.Client, all map[key]Offset, subscribed map[string]bool) []Offset {
	topics := make(map[string]bool)
	for k := range all {
		topics[k.topic] = true
	}
	offsets := make([]Offset, 0, len(all))
	if len(topics) == 0 {
		return offsets // no topics would mean all of the cluster's
	}
	names := slices.Sorted(maps.Keys(topics))
	starts, _ := admin.ListStartOffsets(ctx, names...)
	stables, _ := admin.ListCommittedOffsets(ctx, names...) // first, so that it is not after the end
	ends, _ := admin.ListEndOffsets(ctx, names...)
	for k, o := range all {
		o.Topic, o.Partition, o.Subscribed = k.topic, k.partition, subscribed[k.topic]
		o.Start, o.End, o.Stable, o.Lag = bound(starts, k), bound(ends, k), bound(stables, k), -1
		if o.Committed >= 0 && o.End >= 0 {
			o.Lag = max(0, o.End-o.Committed)
		}
		offsets = append(offsets, o)
	}
	slices.SortFunc(offsets, func(a, b Offset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return offsets
}

func bound(offsets kadm.ListedOffsets, k key) int64 {
	if listed, ok := offsets.Lookup(k.topic, k.partition); ok && listed.Err == nil {
		return listed.Offset
	}
	return -1
}
