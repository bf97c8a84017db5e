// Package diagnosis judges what holds a consumer group up, from two looks at it.
//
// The judgement follows Burrow's rules for the lag of a partition: a partition without lag is well; one whose committed
// offset moves while its lag grows is slow, unless it has come to where the log ended before; one whose committed offset
// stands still while its lag grows is stalled. What the coordinator tells of state, members and assignments says why.
package diagnosis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group/snapshot"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
)

// Judgement is how a group, or a part of it, is.
type Judgement int

// The judgements, the worst last.
const (
	OK      Judgement = iota // it consumes
	Warning                  // something is not as it should be, or it falls behind
	Stalled                  // it does not consume, and will not by waiting
	HungTxn                  // it cannot consume: a transaction holds the last stable offset
)

func (j Judgement) String() string { return [...]string{"OK", "WARNING", "STALLED", "HUNG_TXN"}[j] }

// MarshalText writes the judgement as a word.
func (j Judgement) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

// Sample is one look at a group.
type Sample struct {
	Group   snapshot.Group
	Offsets []snapshot.Offset
	// Holding are the transactions that the partitions of Held have open, if they were asked for.
	Holding []Holder
	// Left are the members that left of late, if the cluster tells.
	Left []groupapi.Departure
}

// Report is what was found. Its judgement is the worst of the findings, which are in order, the worst first.
type Report struct {
	Group     string    `json:"group"`
	Judgement Judgement `json:"judgement"`
	Findings  []Finding `json:"findings"`
}

// Finding is one thing to know.
type Finding struct {
	Judgement Judgement `json:"judgement"`
	About     string    `json:"about"` // group, coordinator, a member, partitions
	What      string    `json:"what"`
}

func report(group string, findings []Finding) Report {
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(b.Judgement, a.Judgement) })
	return Report{Group: group, Judgement: findings[0].Judgement, Findings: findings}
}

// OfFault judges a group that could not be looked at, if that says something of the group: its coordinator does not serve.
func OfFault(group string, err error) (Report, bool) {
	var what string
	switch {
	case err == nil:
		return Report{}, false
	case errors.Is(err, kerr.CoordinatorLoadInProgress):
		what = "is still loading the groups of its shard"
	case errors.Is(err, kerr.CoordinatorNotAvailable):
		what = "is unknown: no node is in charge, or __consumer_offsets has no leader"
	case errors.Is(err, kerr.NotCoordinator):
		what = "moves: the node that was named is not in charge any more"
	case errors.Is(err, context.DeadlineExceeded):
		what = "did not answer in time"
	default:
		return Report{}, false
	}
	return report(group, []Finding{{Stalled, "coordinator", what}}), true
}

// Of judges a group by two samples, taken apart from each other.
func Of(before, after Sample, apart time.Duration) Report {
	j := judge{before: before, after: after, apart: apart, earlier: index(before.Offsets)}
	if len(after.Group.Members) == 0 {
		j.noMembers()
		j.left()
		return report(after.Group.ID, j.findings)
	}
	j.state()
	j.members()
	j.owners()
	j.left()
	for _, o := range after.Offsets {
		if o.Subscribed {
			j.offset(o)
		}
	}
	j.summary()
	return report(after.Group.ID, j.findings)
}

type partition struct {
	topic string
	id    int32
}

type judge struct {
	before, after Sample
	apart         time.Duration
	earlier       map[partition]snapshot.Offset
	findings      []Finding
}

func (j *judge) find(judgement Judgement, about, format string, args ...any) {
	j.findings = append(j.findings, Finding{judgement, about, fmt.Sprintf(format, args...)})
}

// noMembers judges a group without members by its offsets: a client may assign itself partitions and only commit here.
func (j *judge) noMembers() {
	var lag int64
	for _, o := range j.after.Offsets {
		lag += max(0, o.Lag)
	}
	switch {
	case len(j.before.Group.Members) > 0 || j.moved() && len(exits(j.after.Left)) > 0:
		j.find(Warning, "group", "has no members at the moment, and %d records wait", lag)
	case j.moved():
		j.find(OK, "group", "has no members, but its offsets move: a client that assigns itself partitions commits them")
	case lag > 0:
		j.find(Stalled, "group", "has no members: nobody consumes, and %d records wait", lag)
	default:
		j.find(Warning, "group", "has no members; no records wait")
	}
	for _, o := range j.after.Offsets {
		j.outside(o)
	}
}

// state judges what a group with members is doing. What takes longer than the samples lie apart does not end by itself soon.
func (j *judge) state() {
	judgement, since := Warning, ""
	if j.before.Group.State == j.after.Group.State && j.before.Group.AssignmentEpoch == j.after.Group.AssignmentEpoch {
		judgement, since = Stalled, fmt.Sprintf(", for %s at least", j.apart)
	}
	switch state := j.after.Group.State; state {
	case "Stable":
	case "PreparingRebalance":
		j.find(judgement, "group", "waits for its members to join anew (%s)%s: one that processes for long comes late", state, since)
	case "CompletingRebalance":
		j.find(judgement, "group", "waits for the member that leads it to assign the partitions (%s)%s", state, since)
	case "Assigning":
		j.find(judgement, "group", "waits for the assignor %q to assign the partitions (%s)%s", j.after.Group.Assignor, state, since)
	case "Reconciling":
		j.find(Warning, "group", "is on its way to assignment epoch %d (%s)", j.after.Group.AssignmentEpoch, state)
	default:
		j.find(judgement, "group", "is %s%s", state, since)
	}
}

// summary says so if there is nothing to say.
func (j *judge) summary() {
	var lag int64
	owned := 0
	for _, o := range j.after.Offsets {
		if o.Member != "" {
			owned++
			lag += max(0, o.Lag)
		}
	}
	j.find(OK, "group", "%s; members: %d, partitions owned: %d, lag: %d", j.after.Group.State, len(j.after.Group.Members), owned, lag)
}
