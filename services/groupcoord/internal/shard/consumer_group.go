package shard

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	consumers "github.com/cauce-stream/cauce/services/groupcoord/internal/consumer"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// ConsumerGroupHeartbeat is a heartbeat of a member of a consumer group, or its coming or leaving (KIP-848). The first consumer that
// comes to a classic group of consumers upgrades it.
func (m *Machine) ConsumerGroupHeartbeat(now time.Time, t coordinator.Ticket, c op.Client, req *kmsg.ConsumerGroupHeartbeatRequest) coordinator.Step {
	o := m.begin(now)
	g, err := m.consumerGroup(o, c, req)
	if err != nil {
		o.Answer(t, consumers.RefuseHeartbeat(err))
		return o.Step()
	}
	g.ConsumerHeartbeat(o, t, c, req)
	if g.Blank() {
		delete(m.groups, req.Group) // whoever came was not let in
	}
	m.settle(o, req.Group)
	return o.Step()
}

// consumerGroup is the group of a heartbeat, made if a member joins.
func (m *Machine) consumerGroup(o *op.Op, c op.Client, req *kmsg.ConsumerGroupHeartbeatRequest) (*consumers.Group, error) {
	if err := consumers.CheckHeartbeat(o.Settings, req); err != nil {
		return nil, err
	}
	if invalidGroup(req.Group) {
		return nil, kerr.InvalidGroupID
	}
	joins := req.MemberEpoch == 0
	switch g := m.groups[req.Group].(type) {
	case *consumers.Group:
		return g, nil
	case *classic.Group:
		if !joins {
			return nil, notFound("Group %s is not a consumer group.", req.Group)
		}
		if err := consumers.CheckFirst(o, c, req); err != nil {
			return nil, err // the group stays what it is
		}
		return m.upgrade(o, req.Group, g)
	}
	if !joins {
		return nil, notFound("Consumer group %s not found.", req.Group)
	}
	return m.newConsumerGroup(req.Group), nil
}

func (m *Machine) newConsumerGroup(id string) *consumers.Group {
	g := consumers.New(id, m.subscriptions)
	m.groups[id] = g
	return g
}

// notFoundError is the Kafka error with words for the client's log.
type notFoundError string

func (e notFoundError) Error() string { return string(e) }
func (e notFoundError) Unwrap() error { return kerr.GroupIDNotFound }

func notFound(format string, args ...any) error { return notFoundError(fmt.Sprintf(format, args...)) }

// migrates says whether group.consumer.migration.policy allows a direction.
func migrates(o *op.Op, direction string) bool {
	policy := o.Settings.Broker.Get("group.consumer.migration.policy")
	return strings.EqualFold(policy, direction) || strings.EqualFold(policy, "bidirectional")
}

// upgrade makes a classic group a consumer group. Nothing has happened to it when there is an error.
func (m *Machine) upgrade(o *op.Op, id string, g *classic.Group) (*consumers.Group, error) {
	if g.Empty() {
		g.Close(o)
		return m.newConsumerGroup(id), nil
	}
	members := g.Members()
	switch {
	case !migrates(o, "upgrade"):
		return nil, notFound("Cannot upgrade classic group %s to consumer group because online upgrade is disabled.", id)
	case g.ProtocolType() != "consumer":
		return nil, notFound("Cannot upgrade classic group %s to consumer group because the group does not use the consumer embedded protocol.", id)
	case len(members) >= o.Settings.Broker.Int("group.consumer.max.size"):
		return nil, notFound("Cannot upgrade classic group %s to consumer group because the group size exceeds the consumer group maximum size.", id)
	}
	u, err := consumers.PrepareUpgrade(o.Image, id, g.Generation(), g.Protocol(), members)
	if err != nil {
		return nil, err
	}
	if !o.Room(upgradeBytes(id, members)) {
		return nil, notFound("Cannot upgrade classic group %s to consumer group because its records are more than the log takes at once.", id)
	}
	g.Dissolve(o)
	next := m.newConsumerGroup(id)
	next.Upgrade(o, u)
	return next, nil
}

// perRecordBytes is enough for what a record of a member has beside its group's id and what the member said and got.
const perRecordBytes = 512

// upgradeBytes is at most what the records of an upgraded group take, three for each member. What a member got is shorter by name and
// number than by id, number and epoch.
func upgradeBytes(id string, members []classic.Member) int {
	bytes := perRecordBytes
	for i := range members {
		bytes += 3*(len(id)+perRecordBytes) + 5*len(members[i].Assignment)
		for _, p := range members[i].Protocols {
			bytes += 2 * len(p.Metadata)
		}
	}
	return bytes
}

// downgradeBytes is at most what the record of a downgraded group and the tombstones of its former self take.
func downgradeBytes(record *schema.GroupMetadata) int {
	return len(schema.Encode(record).Value) + (3*len(record.Value.Members)+3)*(len(record.Group)+perRecordBytes)
}

// settle downgrades a group that no consumer of the newer protocol is left in: the others get a coordinator that they know. One that
// is too large for its records to be written at once stays as it is.
func (m *Machine) settle(o *op.Op, id string) {
	g, ok := m.groups[id].(*consumers.Group)
	if !ok || !g.AllClassic() || !migrates(o, "downgrade") {
		return
	}
	record := g.Downgrade(o)
	if len(record.Value.Members) > o.Settings.Broker.Int("group.max.size") || !o.Room(downgradeBytes(record)) {
		return
	}
	g.Dissolve(o)
	o.Emit(record)
	next := m.groups[id].(*classic.Group)
	next.Loaded(o)
	next.Rebalance(o, "the group was downgraded from the consumer protocol")
}

// ConsumerGroupDescribe shows consumer groups.
func (m *Machine) ConsumerGroupDescribe(now time.Time, t coordinator.Ticket, req *kmsg.ConsumerGroupDescribeRequest) coordinator.Step {
	o := m.begin(now)
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	for _, id := range req.Groups {
		switch g := m.groups[id].(type) {
		case *consumers.Group:
			resp.Groups = append(resp.Groups, g.Describe(o))
		case nil:
			resp.Groups = append(resp.Groups, refuseConsumer(id, notFound("Group %s not found.", id)))
		default:
			resp.Groups = append(resp.Groups, refuseConsumer(id, notFound("Group %s is not a consumer group.", id)))
		}
	}
	o.Answer(t, resp)
	return o.Step()
}

func refuseConsumer(id string, err error) kmsg.ConsumerGroupDescribeResponseGroup {
	out := kmsg.NewConsumerGroupDescribeResponseGroup()
	message := err.Error()
	out.Group, out.ErrorCode, out.ErrorMessage = id, groupapi.Code(err).Code, &message
	return out
}

// Assigned brings the answer of an assignor to a job that is an [assignment.Input], which it names: what it assigns, or why it does not. The answer
// need not be right: it is checked. There must be one answer to each job while the shard is here.
func (m *Machine) Assigned(now time.Time, in *assignment.Input, out assignment.Output, err error) coordinator.Step {
	o := m.begin(now)
	if g, ok := m.groups[in.Group].(*consumers.Group); ok {
		g.Assigned(o, in, out, err)
		m.settle(o, in.Group)
	}
	return o.Step()
}

// applyConsumer applies a record of a consumer group. The group is there from its first record to the tombstone of its last; where
// a group was only known by its offsets it takes its place.
func (m *Machine) applyConsumer(record schema.Record) {
	id, tombstone := consumerRecord(record)
	g, ok := m.groups[id].(*consumers.Group)
	if !ok {
		if tombstone {
			return
		}
		g = m.newConsumerGroup(id)
	}
	g.Replay(record)
	if tombstone && g.Blank() {
		delete(m.groups, id)
	}
}

// consumerRecord is the group of a record, and whether the record is a tombstone.
func consumerRecord(record schema.Record) (group string, tombstone bool) {
	switch r := record.(type) {
	case *schema.ConsumerGroupMetadata:
		return r.Group, r.Value == nil
	case *schema.ConsumerGroupPartitionMetadata:
		return r.Group, r.Value == nil
	case *schema.ConsumerGroupMemberMetadata:
		return r.Group, r.Value == nil
	case *schema.ConsumerGroupTargetAssignmentMetadata:
		return r.Group, r.Value == nil
	case *schema.ConsumerGroupTargetAssignmentMember:
		return r.Group, r.Partitions == nil
	case *schema.ConsumerGroupCurrentMemberAssignment:
		return r.Group, r.Value == nil
	case *schema.ConsumerGroupRegularExpression:
		return r.Group, r.Value == nil
	}
	panic(fmt.Sprintf("no record of a consumer group: %T", record))
}
