package shard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

var _ coordinator.Machine = (*Machine)(nil)

// entry is a record of the log with the transaction that it belongs to, or the end of one.
type entry struct {
	producer coordinator.Producer
	record   coordinator.Record
	marker   *record.Marker
}

// simStart is when the clock of every test starts.
var simStart = time.UnixMilli(1_000_000_000_000)

// harness is a shard without its shell: records are committed at once, the clock is moved by hand.
type harness struct {
	t        testing.TB
	m        *Machine
	now      time.Time
	im       *metadata.Image
	pairs    map[string]string
	settings *op.Settings
	log      []entry
	topics   int
	fresh    int
	ticket   coordinator.Ticket
	// verify answers for the coordinators of transactions, unless it is nil: then verifications wait.
	verify func(*Verification) error
	held   []*Verification
	// waiting are the requests without an answer.
	waiting map[coordinator.Ticket]kmsg.Request
}

func newHarness(t testing.TB, pairs map[string]string) *harness {
	t.Helper()
	h := &harness{t: t, now: simStart, verify: func(*Verification) error { return nil }, im: metadata.Empty(), pairs: pairs, waiting: map[coordinator.Ticket]kmsg.Request{}}
	h.settings = settings(t, pairs)
	h.m = New(h.im, h.settings)
	h.take(h.m.Loaded(h.now))
	return h
}

func settings(t testing.TB, pairs map[string]string) *op.Settings {
	t.Helper()
	values, err := config.FromMap(configkeys.Broker(), pairs)
	if err != nil {
		t.Fatal(err)
	}
	return &op.Settings{Broker: values, Group: func(string) map[string]string { return nil }}
}

// answer is what a request was answered.
type answer struct {
	ticket   coordinator.Ticket
	request  kmsg.Request
	response any
}

// outcome is what a step brought about.
type outcome struct {
	records []schema.Record
	answers []answer
	jobs    []any
}

// take commits a step, and holds the shard to what must be so after each.
func (h *harness) take(s coordinator.Step) outcome {
	var out outcome
	for _, r := range s.Records {
		decoded, err := schema.Decode(r)
		if err != nil {
			h.t.Fatalf("a record cannot be read: %v", err)
		}
		out.records = append(out.records, decoded)
		h.log = append(h.log, entry{producer: s.Producer, record: r})
	}
	for _, a := range s.Answers {
		req, ok := h.waiting[a.Ticket]
		if !ok {
			h.t.Fatalf("ticket %d is answered %+v, but waits for nothing", a.Ticket, a.Response)
		}
		delete(h.waiting, a.Ticket)
		out.answers = append(out.answers, answer{a.Ticket, req, a.Response})
	}
	for _, j := range s.Jobs {
		if v, ok := j.(*Verification); ok && h.verify != nil {
			out.add(h.take(h.m.Verified(h.now, v, h.verify(v))))
			continue
		}
		out.jobs = append(out.jobs, j)
	}
	return out
}

func (o *outcome) add(more outcome) {
	o.records = append(o.records, more.records...)
	o.answers = append(o.answers, more.answers...)
	o.jobs = append(o.jobs, more.jobs...)
}

// send has the shard handle a request.
func (h *harness) send(client string, req kmsg.Request) outcome {
	h.ticket++
	h.waiting[h.ticket] = req
	return h.take(h.handle(h.ticket, client, req))
}

func (h *harness) handle(t coordinator.Ticket, client string, req kmsg.Request) coordinator.Step {
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		if req.MemberID == "" {
			h.fresh++
		}
		return h.m.JoinGroup(h.now, t, op.Client{ID: client, Host: "/127.0.0.1", Fresh: fmt.Sprint(h.fresh)}, req)
	case *kmsg.SyncGroupRequest:
		return h.m.SyncGroup(h.now, t, req)
	case *kmsg.HeartbeatRequest:
		return h.m.Heartbeat(h.now, t, req)
	case *kmsg.LeaveGroupRequest:
		return h.m.LeaveGroup(h.now, t, req)
	case *kmsg.OffsetCommitRequest:
		return h.m.OffsetCommit(h.now, t, req)
	case *kmsg.TxnOffsetCommitRequest:
		return h.m.TxnOffsetCommit(h.now, t, req)
	case *kmsg.OffsetFetchRequest:
		return h.m.OffsetFetch(h.now, t, req)
	case *kmsg.OffsetDeleteRequest:
		return h.m.OffsetDelete(h.now, t, req)
	case *kmsg.DeleteGroupsRequest:
		return h.m.DeleteGroups(h.now, t, req)
	case *kmsg.DescribeGroupsRequest:
		return h.m.DescribeGroups(h.now, t, req)
	case *kmsg.ListGroupsRequest:
		return h.m.ListGroups(h.now, t, req)
	}
	h.t.Fatalf("no request %T", req)
	return coordinator.Step{}
}

// response is the answer of a request that does not wait.
func (h *harness) response(client string, req kmsg.Request) any {
	out := h.send(client, req)
	for _, a := range out.answers {
		if a.ticket == h.ticket {
			return a.response
		}
	}
	h.t.Fatalf("%T is not answered", req)
	return nil
}

// maxTicksAtOnce bounds what may be due at one instant.
const maxTicksAtOnce = 1000

// wait moves the clock and does what becomes due on the way, at the time when it is due.
func (h *harness) wait(d time.Duration, did func(outcome)) {
	until := h.now.Add(d)
	for ticks := 0; ; ticks++ {
		next := h.m.NextTick()
		if next.IsZero() || next.After(until) {
			break
		}
		if ticks == maxTicksAtOnce {
			h.t.Fatalf("something is due for ever at %v", next)
		}
		if next.After(h.now) {
			h.now, ticks = next, 0
		}
		did(h.take(h.m.Tick(h.now)))
	}
	h.now = until
}

// endingTicket is that of markers, so that they do not count among the requests.
const endingTicket = 1 << 40

// endTransaction ends a producer's transaction of epoch 0.
func (h *harness) endTransaction(producer int64, commit bool) {
	h.t.Helper()
	e := record.Ending{ProducerID: producer}
	if commit {
		e.Type = record.Commit
	}
	if err := h.end(e); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) end(e record.Ending) error {
	h.t.Helper()
	h.waiting[endingTicket] = nil
	step := h.m.EndTransaction(h.now, endingTicket, e)
	if step.Marker != nil {
		h.log = append(h.log, entry{producer: step.Producer, marker: step.Marker})
	}
	answers := h.take(step).answers
	if len(answers) != 1 {
		h.t.Fatalf("a marker has the answers %+v", answers)
	}
	err, _ := answers[0].response.(error)
	return err
}

// createTopic and deleteTopic change the cluster; the shard does not see it before image.
func (h *harness) createTopic(name string, partitions int32) {
	h.topics++
	id := metadata.TopicID{15: byte(h.topics), 14: byte(h.topics >> 8)}
	recs := []*metadatapb.Record{{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: name, TopicId: id[:]}}}}
	for i := range partitions {
		recs = append(recs, &metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: &metadatapb.PartitionRecord{PartitionId: i, TopicId: id[:], Leader: -1}}})
	}
	h.change(recs...)
}

func (h *harness) deleteTopic(name string) {
	topic, ok := h.im.Topic(name)
	if !ok {
		h.t.Fatalf("no topic %s", name)
	}
	h.change(&metadatapb.Record{Record: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopicRecord{TopicId: topic.ID[:]}}})
}

func (h *harness) change(recs ...*metadatapb.Record) {
	h.t.Helper()
	next, _, err := h.im.Apply(h.im.Offset()+int64(len(recs)), recs)
	if err != nil {
		h.t.Fatal(err)
	}
	h.im = next
}

// image has the shard see the cluster as it is.
func (h *harness) image() outcome {
	h.t.Helper()
	return h.take(h.m.OnImage(h.now, h.im, h.settings, NewsOf(h.m.image, metadata.Diff(h.m.image, h.im))))
}

// replayed is a shard that has read the log.
func (h *harness) replayed() *Machine {
	h.t.Helper()
	m := New(h.im, h.settings)
	for _, e := range h.log {
		var err error
		if e.marker != nil {
			err = m.ReplayMarker(e.producer, *e.marker)
		} else {
			err = m.Replay(e.producer, e.record)
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
	return m
}

// move has another coordinator take the shard over. The runtime answers the requests that wait.
func (h *harness) move() outcome {
	h.t.Helper()
	clear(h.waiting)
	h.m = h.replayed()
	return h.take(h.m.Loaded(h.now))
}

// checkReplay shows that the records alone give what must survive.
func (h *harness) checkReplay() {
	h.t.Helper()
	if live, replayed := hard(h.m, h.m), hard(h.replayed(), h.m); live != replayed {
		h.t.Fatalf("the shard has\n%s\nbut its records give\n%s", live, replayed)
	}
}

// hard is what of a shard must survive. Of a group that is in the middle of a rebalance in live nothing but that there is one.
func hard(m, live *Machine) string {
	var b strings.Builder
	for _, id := range m.ids() {
		fmt.Fprintf(&b, "%s %s\n", m.groups[id].Type(), id)
		switch g := m.groups[id].(type) {
		case *classic.Group:
			if known := live.groups[id]; known != nil && (known.State() == string(classic.Stable) || known.State() == string(classic.Empty)) {
				d := g.Describe(time.Time{})
				fmt.Fprintf(&b, "  %s %q %q %+v\n", d.State, d.ProtocolType, d.Protocol, g.Retention())
				for _, m := range d.Members {
					fmt.Fprintf(&b, "  %s %s %s %s %x %x\n", m.MemberID, text(m.InstanceID), m.ClientID, m.ClientHost, m.ProtocolMetadata, m.MemberAssignment)
				}
			}
		}
	}
	return b.String() + fmt.Sprintf("%+v\n", *m.offsets)
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// codeName is a code as Kafka names it.
func codeName(code int16) string {
	if err := kerr.TypedErrorForCode(code); err != nil {
		return err.Message
	}
	return "ok"
}

// subscription is what a consumer says of itself.
func subscription(topics ...string) []byte {
	s := kmsg.NewConsumerMemberMetadata()
	s.Version, s.Topics = 1, topics
	return s.AppendTo(nil)
}

// subscribed are the topics of what subscription has made; anything else is shown as it is.
func subscribedTo(metadata []byte) string {
	var s kmsg.ConsumerMemberMetadata
	if err := s.ReadFrom(metadata); err != nil {
		return string(metadata)
	}
	return strings.Join(s.Topics, "+")
}
