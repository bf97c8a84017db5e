// Package assignment is what an assignor is asked and what it may answer, as the coordinator sees it (KIP-848).
package assignment

import (
	"fmt"
	"slices"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// Partitions are partitions by topic, each list in ascending order and none empty.
type Partitions map[metadata.TopicID][]int32

// Topic is a topic that some member subscribes to.
type Topic struct {
	ID    metadata.TopicID
	Name  string
	Count int32
	// Racks has the racks of each partition's replicas, in order of partition; nil where no broker has a rack.
	Racks [][]string
}

// Member is a member of the group.
type Member struct {
	ID string
	// InstanceID is empty for a dynamic member (KIP-345).
	InstanceID string
	// Rack is empty when the member names none.
	Rack string
	// Topics are those subscribed to that exist, in the order of Input.Topics.
	Topics []metadata.TopicID
	// Target is what the member has in the target assignment so far.
	Target Partitions
}

// Input is one question to an assignor.
type Input struct {
	Group string
	// Epoch is the group epoch that the answer is for.
	Epoch int32
	// Assignor is the name of the assignor, among group.consumer.assignors.
	Assignor string
	// Members are in order of id.
	Members []Member
	// Topics are in order of id.
	Topics []Topic
}

// Output is the new target assignment by member id. A member may be absent, which is as if it had nothing.
type Output map[string]Partitions

// maxNamedFaults bounds how many partitions one error names.
const maxNamedFaults = 3

// Check says what is wrong with an answer: a member that is not in the group, a partition that does not exist, is not subscribed to
// by its member or is given twice, or one that is given to nobody although some member subscribes to its topic.
func (in *Input) Check(out Output) error {
	topics := make(map[metadata.TopicID]*Topic, len(in.Topics))
	owners := make(map[metadata.TopicID][]string, len(in.Topics))
	for i := range in.Topics {
		t := &in.Topics[i]
		topics[t.ID] = t
		owners[t.ID] = make([]string, t.Count)
	}
	members := make(map[string]*Member, len(in.Members))
	for i := range in.Members {
		members[in.Members[i].ID] = &in.Members[i]
	}
	for id, partitions := range out {
		m := members[id]
		if m == nil {
			return fmt.Errorf("assignor %s: unknown member %q", in.Assignor, id)
		}
		if err := in.checkMember(m, partitions, topics, owners); err != nil {
			return err
		}
	}
	return in.checkComplete(owners)
}

func (in *Input) checkMember(m *Member, partitions Partitions, topics map[metadata.TopicID]*Topic, owners map[metadata.TopicID][]string) error {
	for id, list := range partitions {
		t := topics[id]
		if t == nil || !slices.Contains(m.Topics, id) {
			return fmt.Errorf("assignor %s: member %q does not subscribe to topic %s", in.Assignor, m.ID, id)
		}
		for _, p := range list {
			if p < 0 || p >= t.Count {
				return fmt.Errorf("assignor %s: topic %s has no partition %d", in.Assignor, t.Name, p)
			}
			if before := owners[id][p]; before != "" {
				return fmt.Errorf("assignor %s: partition %s-%d goes to both %q and %q", in.Assignor, t.Name, p, before, m.ID)
			}
			owners[id][p] = m.ID
		}
	}
	return nil
}

func (in *Input) checkComplete(owners map[metadata.TopicID][]string) error {
	subscribed := map[metadata.TopicID]bool{}
	for i := range in.Members {
		for _, id := range in.Members[i].Topics {
			subscribed[id] = true
		}
	}
	var missing []string
	for i := range in.Topics {
		t := &in.Topics[i]
		for p, owner := range owners[t.ID] {
			if owner == "" && subscribed[t.ID] {
				if len(missing) == maxNamedFaults {
					return fmt.Errorf("assignor %s: nobody has partitions %v and more", in.Assignor, missing)
				}
				missing = append(missing, fmt.Sprintf("%s-%d", t.Name, p))
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("assignor %s: nobody has partitions %v", in.Assignor, missing)
	}
	return nil
}
