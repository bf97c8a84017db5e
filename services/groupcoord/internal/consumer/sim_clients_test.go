package consumer

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// client is a consumer that keeps to the protocol, of either kind.
type client struct {
	id, instance string
	classic      bool
	topics       []string
	pattern      string
	assignor     string

	// epoch is the last one heard of, the generation of a classic member; 0 before joining.
	epoch int32
	// owns is what the consumer reads from.
	owns reported
	// full is set while the next heartbeat has to say everything, since the last answer was lost or the consumer joins.
	full bool
	// acked says that owns was reported since it changed.
	acked bool
	// known says that a classic member has an id, synced that it has its assignment.
	known, synced bool
	// pending is a request whose answer is out; 0 when there is none. ask is what the answer belongs to.
	pending coordinator.Ticket
	sent    time.Time
	// silent consumers neither send nor receive until then.
	silent time.Time
	// gone consumers have crashed: what they own does not count once the coordinator has given up on them.
	gone bool
}

// act is a consumer's next request.
func (s *sim) act(c *client) {
	if c.pending != 0 && s.now.Sub(c.sent) < 30*time.Second {
		return
	}
	if c.classic {
		s.actClassic(c)
		return
	}
	req := &kmsg.ConsumerGroupHeartbeatRequest{Version: 1, Group: groupID, MemberID: c.id, MemberEpoch: c.epoch, RebalanceTimeoutMillis: -1}
	if c.instance != "" {
		req.InstanceID = &c.instance
	}
	if c.full || c.epoch == 0 {
		req.RebalanceTimeoutMillis = 20_000
		if c.pattern != "" {
			req.SubscribedTopicRegex = &c.pattern
			req.SubscribedTopicNames = []string{}
		} else {
			req.SubscribedTopicNames, req.SubscribedTopicRegex = c.topics, new(string)
		}
		if c.assignor != "" {
			req.ServerAssignor = &c.assignor
		}
	}
	if c.full || !c.acked || c.epoch == 0 {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for id, partitions := range c.owns {
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: slices.Clone(partitions)})
		}
	}
	c.full, c.acked = false, true
	s.send(c, req)
}

func (s *sim) send(c *client, req *kmsg.ConsumerGroupHeartbeatRequest) {
	if err := CheckHeartbeat(s.settings, withGroup(req)); err != nil {
		s.fail("%s sends what is refused: %v", c.id, err)
	}
	s.last++
	ticket := s.last
	c.pending, c.sent = ticket, s.now
	s.do(func(o *op.Op) { s.group.ConsumerHeartbeat(o, ticket, op.Client{ID: "c", Host: "/127.0.0.1"}, req) })
}

func withGroup(req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatRequest {
	req.Group = groupID
	return req
}

func (s *sim) actClassic(c *client) {
	s.last++
	ticket := s.last
	c.pending, c.sent = ticket, s.now
	var instance *string
	if c.instance != "" {
		instance = &c.instance
	}
	switch {
	case c.epoch == 0:
		m := kmsg.ConsumerMemberMetadata{Version: 3, Topics: c.topics, Generation: -1}
		for id, partitions := range c.owns {
			if t, ok := s.image.TopicByID(id); ok {
				m.OwnedPartitions = append(m.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: t.Name, Partitions: partitions})
			}
		}
		// The member asks by the id it has made up, which a group takes; a static one comes without.
		req := &kmsg.JoinGroupRequest{Version: 9, Group: groupID, MemberID: c.id, InstanceID: instance, ProtocolType: protocolType, SessionTimeoutMillis: 30_000, RebalanceTimeoutMillis: 20_000,
			Protocols: []kmsg.JoinGroupRequestProtocol{{Name: "cooperative-sticky", Metadata: m.AppendTo(nil)}}}
		if instance != nil && !c.known {
			req.MemberID = ""
		}
		s.do(func(o *op.Op) {
			s.group.Join(o, ticket, op.Client{ID: "c", Host: "/127.0.0.1", Fresh: c.id}, req)
		})
	case !c.synced:
		s.do(func(o *op.Op) {
			s.group.Sync(o, ticket, &kmsg.SyncGroupRequest{Version: 5, Group: groupID, MemberID: c.id, InstanceID: instance, Generation: c.epoch})
		})
	default:
		s.do(func(o *op.Op) {
			s.group.Heartbeat(o, ticket, &kmsg.HeartbeatRequest{Version: 4, Group: groupID, MemberID: c.id, InstanceID: instance, Generation: c.epoch})
		})
	}
}

// deliver hands out the answers.
func (s *sim) deliver() {
	answers := s.answers
	s.answers = nil
	for _, a := range answers {
		i := slices.IndexFunc(s.clients, func(c *client) bool { return c.pending == a.Ticket })
		if i < 0 {
			continue // lost, or of a client that is gone
		}
		c := s.clients[i]
		switch {
		case c.gone:
			c.pending = 0
		case s.now.Before(c.silent) || !s.calm && s.rnd.IntN(12) == 0:
			s.lose(c)
		default:
			c.pending = 0
			s.receive(c, a.Response)
		}
	}
}

func (s *sim) receive(c *client, response any) {
	switch r := response.(type) {
	case *kmsg.ConsumerGroupHeartbeatResponse:
		s.receiveHeartbeat(c, r)
	case *kmsg.JoinGroupResponse:
		switch kerr.ErrorForCode(r.ErrorCode) {
		case nil:
			c.epoch, c.known, c.synced = r.Generation, true, false
		case kerr.CoordinatorNotAvailable, kerr.GroupMaxSizeReached:
		default:
			s.renew(c, r.ErrorCode)
		}
	case *kmsg.SyncGroupResponse:
		switch kerr.ErrorForCode(r.ErrorCode) {
		case nil:
			s.synced(c, r)
		case kerr.RebalanceInProgress:
			c.epoch = 0
		default:
			s.renew(c, r.ErrorCode)
		}
	case *kmsg.HeartbeatResponse:
		switch kerr.ErrorForCode(r.ErrorCode) {
		case nil:
		case kerr.RebalanceInProgress:
			c.epoch = 0 // joins again, with what it owns
		default:
			s.renew(c, r.ErrorCode)
		}
	}
}

// renew is a classic consumer that lost its membership: it joins as another member, unless one has come in its place.
func (s *sim) renew(c *client, code int16) {
	s.serial++
	c.gone = code == kerr.FencedInstanceID.Code
	s.forget(c)
	c.id = fmt.Sprintf("m%03d", s.serial)
}

// synced is a cooperative consumer that gets its assignment: it gives up the rest and joins again at once if there was any.
func (s *sim) synced(c *client, r *kmsg.SyncGroupResponse) {
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(r.MemberAssignment); err != nil {
		s.fail("%s got an assignment that it cannot read: %v", c.id, err)
	}
	owns := reported{}
	for _, tp := range a.Topics {
		if t, ok := s.image.Topic(tp.Topic); ok {
			owns[t.ID] = tp.Partitions
		}
	}
	revoked := false
	for id, list := range c.owns {
		for _, p := range list {
			revoked = revoked || !slices.Contains(owns[id], p)
		}
	}
	c.owns, c.synced = owns, true
	if revoked {
		c.epoch = 0
	}
}

func (s *sim) receiveHeartbeat(c *client, r *kmsg.ConsumerGroupHeartbeatResponse) {
	switch err := kerr.ErrorForCode(r.ErrorCode); err {
	case nil:
	case kerr.FencedMemberEpoch, kerr.UnknownMemberID:
		s.forget(c)
		return
	case kerr.UnreleasedInstanceID, kerr.FencedInstanceID:
		c.gone, c.owns = true, reported{} // another consumer has the instance id
		return
	case kerr.GroupMaxSizeReached, kerr.CoordinatorNotAvailable:
		c.full = true
		return
	default:
		s.fail("%s got %v: %v", c.id, err, *r.ErrorMessage)
	}
	if r.MemberEpoch < 0 {
		return
	}
	if r.MemberEpoch < 1 {
		s.fail("%s got epoch %d", c.id, r.MemberEpoch)
	}
	c.epoch = r.MemberEpoch
	if r.Assignment != nil {
		owns := reported{}
		for _, tp := range r.Assignment.Topics {
			owns[tp.TopicID] = tp.Partitions
		}
		// A consumer stops reading from what is not there any more before it says so, and starts with what is new.
		c.owns, c.acked = owns, false
	}
}
