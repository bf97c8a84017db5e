package consumer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// After a failure the same question is asked again, no sooner than firstRetry and no later than lastRetry.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// AssignmentFailed is a job for the shell: to log and count that an assignor gave no answer, or one that cannot be used.
// The group keeps its target assignment and asks again.
type AssignmentFailed struct {
	Group    string
	Epoch    int32
	Assignor string
	Err      error
}

// question is what the group asks an assignor; one question at a time.
type question struct {
	// asked is the question under way; nil when there is none.
	asked *assignment.Input
	// at is when the last question was asked.
	at time.Time
	// renamed are the new ids of static members that came back since.
	renamed map[string]string
	// failures are those in a row, the last one of the question for failedEpoch.
	failures    int
	failedEpoch int32
}

func (q *question) rename(former, id string) {
	if q.asked == nil {
		return
	}
	if q.renamed == nil {
		q.renamed = map[string]string{}
	}
	for original, name := range q.renamed {
		if name == former {
			former = original
		}
	}
	q.renamed[former] = id
}

// due is when the next question may be asked. Changes that follow each other closely are answered together (KIP-1263);
// a question that failed waits for longer, unless it has become another one.
func (g *Group) due(o *op.Op) time.Time {
	interval := g.keys(o).assignEvery
	q := &g.question
	var due time.Time
	if g.target.TimestampMs > 0 {
		due = time.UnixMilli(g.target.TimestampMs).Add(interval)
	}
	switch {
	case q.failures > 0 && q.failedEpoch == g.epoch.Epoch:
		due = q.at.Add(min(firstRetry<<min(q.failures-1, 10), lastRetry))
	case q.failures > 0:
		due = q.at.Add(interval)
	}
	// The clock of whoever wrote the target may be ahead.
	if latest := o.Now.Add(max(interval, lastRetry)); due.After(latest) {
		return latest
	}
	return due
}

// ask has an assignor compute a target assignment when the group has moved past the one it has. The shell answers the job, an
// *assignment.Input, by exactly one call of Assigned unless the shard is unloaded meanwhile.
func (g *Group) ask(o *op.Op) {
	q := &g.question
	if q.asked != nil || len(g.members) == 0 || g.epoch.Epoch <= g.target.Epoch {
		return
	}
	if due := g.due(o); due.After(o.Now) {
		o.SetTimer(g.timer(timerAssignor, ""), due)
		return
	}
	o.ClearTimer(g.timer(timerAssignor, ""))
	q.asked, q.at, q.renamed = g.input(o), o.Now, nil
	if len(q.asked.Topics) > 0 {
		o.Job(q.asked)
		return
	}
	g.Assigned(o, q.asked, nil, nil) // there is nothing to assign
}

// assignor is the one that most members want; the first offered one if nobody wants any.
func (g *Group) assignor(o *op.Op) string {
	offered := o.Settings.Broker.List("group.consumer.assignors")
	best, votes := offered[0], 0
	for _, name := range offered {
		if g.assignors[name] > votes {
			best, votes = name, g.assignors[name]
		}
	}
	return best
}

// input is the question that the group has now.
func (g *Group) input(o *op.Op) *assignment.Input {
	in := &assignment.Input{Group: g.id, Epoch: g.epoch.Epoch, Assignor: g.assignor(o)}
	topics := g.subscribedTopics(o.Image)
	slices.SortFunc(topics, func(a, b *metadata.Topic) int { return slices.Compare(a.ID[:], b.ID[:]) })
	for _, t := range topics {
		in.Topics = append(in.Topics, assignment.Topic{ID: t.ID, Name: t.Name, Count: int32(len(t.Partitions)), Racks: racksOf(o.Image, t)})
	}
	// Most members subscribe to the same, so the lists are shared.
	lists := map[string][]metadata.TopicID{}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		key := strings.Join(m.said.Topics, ",") + "\x00" + m.said.Expression
		list, ok := lists[key]
		if !ok {
			for _, t := range topics {
				if g.subscribes(o.Image, m.said, t.ID) {
					list = append(list, t.ID)
				}
			}
			lists[key] = list
		}
		in.Members = append(in.Members, assignment.Member{ID: id, InstanceID: m.said.InstanceID, Rack: m.said.RackID, Topics: list, Target: g.targets[id]})
	}
	return in
}

// Assigned is the answer of an assignor to a question. It is the target of the question's epoch even if the group has moved on, and
// the group asks again then. An answer to another question than the one under way is one from before the shard was loaded anew, or
// to a group of that name that is no more.
func (g *Group) Assigned(o *op.Op, in *assignment.Input, out assignment.Output, err error) {
	if g.question.asked != in {
		return
	}
	epoch := in.Epoch
	g.question.asked = nil
	if err == nil {
		err = in.Check(out)
	}
	var changes []schema.Record
	if err == nil && epoch > g.target.Epoch {
		changes, err = g.changes(o, in, out)
	}
	switch {
	case err != nil:
		g.question.failures++
		g.question.failedEpoch = in.Epoch
		o.Job(&AssignmentFailed{Group: g.id, Epoch: in.Epoch, Assignor: in.Assignor, Err: err})
		for _, id := range slices.Sorted(maps.Keys(g.waiting)) {
			g.answerNow(o, id) // there is nothing to wait for
		}
	case epoch > g.target.Epoch:
		g.question.failures = 0
		for _, r := range changes {
			o.Emit(r)
		}
		for _, id := range slices.Sorted(maps.Keys(g.waiting)) {
			if g.targets[id] != nil { // others came after the question
				g.answerNow(o, id)
			}
		}
	}
	g.ask(o)
}

// changes are the records that make the answer the target assignment. Members that came after the question keep what they have:
// nothing, or what the static member had whose place they took.
func (g *Group) changes(o *op.Op, in *assignment.Input, out assignment.Output) ([]schema.Record, error) {
	var records []schema.Record
	bytes := 0
	add := func(r schema.Record) {
		encoded := schema.Encode(r)
		bytes += len(encoded.Key) + len(encoded.Value) + recordOverheadBytes
		records = append(records, r)
	}
	for i := range in.Members {
		id := in.Members[i].ID
		partitions := normal(out[id])
		if name, ok := g.question.renamed[id]; ok {
			id = name
		}
		before, has := g.targets[id]
		if g.members[id] == nil || has && maps.EqualFunc(before, partitions, slices.Equal) {
			continue
		}
		add(&schema.ConsumerGroupTargetAssignmentMember{Group: g.id, Member: id, Partitions: partitions})
	}
	add(&schema.ConsumerGroupTargetAssignmentMetadata{Group: g.id, Value: &schema.TargetEpoch{Epoch: in.Epoch, TimestampMs: o.Now.UnixMilli()}})
	if !o.Room(bytes + otherRecordsBytes) {
		return nil, fmt.Errorf("assignor %s: the assignment has %d bytes, which is more than the log takes at once (message.max.bytes)", in.Assignor, bytes)
	}
	return records, nil
}

// recordOverheadBytes is at least what a record takes in a batch apart from key and value.
const recordOverheadBytes = 32

// normal is a copy with each list in order and none empty.
func normal(partitions assignment.Partitions) assignment.Partitions {
	out := make(assignment.Partitions, len(partitions))
	for id, list := range partitions {
		if len(list) > 0 {
			out[id] = slices.Sorted(slices.Values(list))
		}
	}
	return out
}

// waiter is a request that waits for an assignor: to join, or to subscribe to something else. So its answer has the member's new
// assignment, as it has where assignors run at once. It waits for no longer than a heartbeat interval, after which the member would ask by itself.
type waiter struct {
	ticket coordinator.Ticket
	// join is true for a member of the classic protocol.
	join bool
	// owned are the partitions that the member says it has.
	owned reported
}

// supersede ends the wait of a request whose client has given up on it: it has sent another one. What the member is told from now on
// must not be told to nobody.
func (g *Group) supersede(o *op.Op, id string) {
	if g.waiting[id] != nil {
		g.dismiss(o, id, refuse(kerr.CoordinatorNotAvailable, "Member %s has sent another request.", id))
	}
}

func (g *Group) wait(o *op.Op, m *member, w *waiter) {
	g.waiting[m.id] = w
	o.SetTimer(g.timer(timerWait, m.id), o.Now.Add(g.keys(o).heartbeatInterval))
}

// answerNow takes a member that waits towards the target that there is.
func (g *Group) answerNow(o *op.Op, id string) {
	w := g.waiting[id]
	delete(g.waiting, id)
	o.ClearTimer(g.timer(timerWait, id))
	g.begin(o)
	m := g.members[id]
	g.reconcile(o, m, w.owned, false)
	if w.join {
		g.answerJoin(o, w.ticket, m)
	} else {
		g.answer(o, w.ticket, m, true)
	}
}

// begin gives a group whose first question has no answer yet an empty target assignment: members need an epoch above 0
// to go on with.
func (g *Group) begin(o *op.Op) {
	if g.target.Epoch > 0 {
		return
	}
	o.Emit(&schema.ConsumerGroupTargetAssignmentMetadata{Group: g.id, Value: &schema.TargetEpoch{Epoch: g.epoch.Epoch}})
	g.refresh(o, true)
}

// dismiss gives a request that waits, if there is one, no other answer than err.
func (g *Group) dismiss(o *op.Op, id string, err error) {
	w := g.waiting[id]
	if w == nil {
		return
	}
	delete(g.waiting, id)
	o.ClearTimer(g.timer(timerWait, id))
	if w.join {
		o.Answer(w.ticket, refuseJoin(id, err))
		return
	}
	o.Answer(w.ticket, RefuseHeartbeat(err))
}
