package diagnosis

import (
	"fmt"
	"reflect"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group/snapshot"
)

// members finds those that a rebalance of the consumer protocol waits for: who has not given up what another is to get.
func (j *judge) members() {
	if j.after.Group.Type != snapshot.Consumer {
		return
	}
	for _, m := range j.after.Group.Members {
		giveUp, come := m.Assigned.Without(m.Target), m.Target.Without(m.Assigned)
		if len(giveUp) == 0 && len(come) == 0 && m.Epoch >= j.after.Group.AssignmentEpoch {
			continue
		}
		judgement, since := Warning, ""
		if j.unchanged(m) {
			judgement, since = Stalled, fmt.Sprintf(", for %s at least", j.apart)
		}
		switch {
		case len(giveUp) > 0:
			j.find(judgement, about(m), "has not given up %s yet%s", giveUp, since)
		case len(come) > 0:
			j.find(Warning, about(m), "waits for %s%s", come, j.holder(come))
		default:
			j.find(judgement, about(m), "is at epoch %d of %d and has not heard of the new assignment%s", m.Epoch, j.after.Group.AssignmentEpoch, since)
		}
	}
}

func about(m snapshot.Member) string {
	if m.InstanceID != "" {
		return "member " + m.InstanceID
	}
	return "member " + m.ID
}

func (j *judge) unchanged(m snapshot.Member) bool {
	for _, before := range j.before.Group.Members {
		if before.ID == m.ID {
			return before.Epoch == m.Epoch && reflect.DeepEqual(before.Assigned, m.Assigned) && reflect.DeepEqual(before.Target, m.Target)
		}
	}
	return false
}

// holder names who owns the first of the partitions still.
func (j *judge) holder(set snapshot.Partitions) string {
	for _, other := range j.after.Group.Members {
		if topic := set[0]; other.Assigned.Has(topic.Topic, topic.Partitions[0]) {
			return ", which " + about(other) + " still owns"
		}
	}
	return ""
}

// owners finds partitions that members subscribe to and none owns, a topic at a time.
func (j *judge) owners() {
	if j.after.Group.State != "Stable" || j.after.Group.ProtocolType != "consumer" {
		return
	}
	var free snapshot.Partitions
	waiting := make(map[string]int64)
	for _, o := range j.after.Offsets {
		before, ok := j.earlier[partition{o.Topic, o.Partition}]
		if !o.Subscribed || o.Member != "" || (ok && before.Member != "") {
			continue
		}
		if len(free) == 0 || free[len(free)-1].Topic != o.Topic {
			free = append(free, snapshot.TopicPartitions{Topic: o.Topic})
		}
		last := &free[len(free)-1]
		last.Partitions = append(last.Partitions, o.Partition)
		waiting[o.Topic] += waits(o)
	}
	for _, topic := range free {
		set := snapshot.Partitions{topic}
		if n := waiting[topic.Topic]; n > 0 {
			j.find(Stalled, set.String(), "no member owns them, and %d records wait", n)
		} else {
			j.find(Warning, set.String(), "no member owns them")
		}
	}
}

// waits returns how many records of a partition are still to be consumed, all if nothing was committed.
func waits(o snapshot.Offset) int64 {
	if o.Committed < 0 && o.Start >= 0 {
		return max(0, o.End-o.Start)
	}
	return max(0, o.Lag)
}

// offset judges how a partition with an owner comes along.
func (j *judge) offset(o snapshot.Offset) {
	before, ok := j.earlier[partition{o.Topic, o.Partition}]
	if o.Member == "" && (!ok || before.Member == "") {
		return // owners tells of it
	}
	where := name(o)
	switch {
	case o.End < 0:
		j.find(Stalled, where, "has no end that could be asked for: it has no leader, or the topic does not exist any more")
	case j.outside(o):
	case o.Committed < 0:
		if ok && before.Committed < 0 && before.End > before.Start {
			j.find(Warning, where, "nothing was committed yet, and %d records are there", o.End-o.Start)
		}
	case !ok || before.Committed < 0 || before.End < 0 || o.Lag == 0:
	case held(before, o):
		j.heldBy(o)
	case o.Committed < before.Committed:
		j.find(Warning, where, "the committed offset went back from %d to %d", before.Committed, o.Committed)
	case o.Committed == before.Committed && o.Lag > before.Lag:
		j.find(Stalled, where, "nothing was committed for %s, and the lag grew from %d to %d%s", j.apart, before.Lag, o.Lag, by(o))
	case o.Committed == before.Committed:
		j.find(Warning, where, "nothing was committed for %s, and %d records wait%s", j.apart, o.Lag, by(o))
	case o.Lag > before.Lag && o.Committed < before.End: // whoever has done what was there at the first look is no more than a commit behind
		j.find(Warning, where, "falls behind: %d records were committed and %d written in %s, so the lag grew from %d to %d%s",
			o.Committed-before.Committed, o.End-before.End, j.apart, before.Lag, o.Lag, by(o))
	}
}

// outside finds a committed offset outside of the log.
func (j *judge) outside(o snapshot.Offset) bool {
	judgement := Warning
	if before, ok := j.earlier[partition{o.Topic, o.Partition}]; ok && before.Committed == o.Committed {
		judgement = Stalled
	}
	switch {
	case o.Committed < 0:
		return false
	case o.End >= 0 && o.Committed > o.End:
		j.find(Stalled, name(o), "the committed offset %d is after the end %d: the topic was made anew or cut; auto.offset.reset or a reset decides", o.Committed, o.End)
	case o.Start >= 0 && o.Committed < o.Start:
		j.find(judgement, name(o), "the committed offset %d is before the start %d: %d records were deleted before they were consumed", o.Committed, o.Start, o.Start-o.Committed)
	default:
		return false
	}
	return true
}

func name(o snapshot.Offset) string { return fmt.Sprintf("%s:%d", o.Topic, o.Partition) }

func by(o snapshot.Offset) string {
	if o.Member == "" {
		return ""
	}
	return fmt.Sprintf(" (member %s at %s)", o.ClientID, o.Host)
}
