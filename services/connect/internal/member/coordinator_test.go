package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	session    = 10 * time.Second
	rebalance  = 60 * time.Second
	latency    = time.Millisecond // each way
	broker     = "broker:9092"
	coordinate = "coordinator:9093"
)

// coordinator is a group of the classic protocol in memory, to be used under testing/synctest.
type coordinator struct {
	t *testing.T

	mu         sync.Mutex
	next       int
	pending    map[string]bool // ids that were given and have not joined
	members    map[string]*seat
	order      []string
	generation int32
	stable     bool
	protocol   string
	shares     map[string][]byte
	timer      *time.Timer // of the rebalance
	// refuse is a code that all requests to the coordinator are answered with.
	refuse *kerr.Error
}

// seat is a member of the group.
type seat struct {
	protocols []kmsg.JoinGroupRequestProtocol
	joining   chan *kmsg.JoinGroupResponse
	syncing   chan *kmsg.SyncGroupResponse
	session   *time.Timer
}

func newCoordinator(t *testing.T) *coordinator {
	return &coordinator{t: t, pending: map[string]bool{}, members: map[string]*seat{}}
}

var errCut = errors.New("no answer")

// do is what a worker's Do is; cut says whether the worker is cut off.
func (c *coordinator) do(ctx context.Context, addr string, req kmsg.Request, cut func() bool) (kmsg.Response, error) {
	if cut() {
		wait(ctx, 30*time.Second)
		return nil, errCut
	}
	wait(ctx, latency)
	resp, err := c.answer(ctx, addr, req)
	if err != nil {
		return nil, err
	}
	wait(ctx, latency)
	if cut() {
		wait(ctx, 30*time.Second)
		return nil, errCut
	}
	return resp, ctx.Err()
}

func (c *coordinator) answer(ctx context.Context, addr string, req kmsg.Request) (kmsg.Response, error) {
	if find, ok := req.(*kmsg.FindCoordinatorRequest); ok {
		if addr != broker || find.CoordinatorKey != "workers" {
			c.t.Errorf("%s is asked for the coordinator of %q", addr, find.CoordinatorKey)
		}
		resp := kmsg.NewPtrFindCoordinatorResponse()
		resp.Host, resp.Port = "coordinator", 9093
		return resp, nil
	}
	if addr != coordinate {
		c.t.Errorf("%T goes to %s", req, addr)
	}
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		return c.join(ctx, req)
	case *kmsg.SyncGroupRequest:
		return c.sync(ctx, req)
	case *kmsg.HeartbeatRequest:
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = c.beat(req)
		return resp, nil
	case *kmsg.LeaveGroupRequest:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.remove(req.MemberID)
		return kmsg.NewPtrLeaveGroupResponse(), nil
	}
	return nil, fmt.Errorf("a request of type %T", req)
}

func (c *coordinator) join(ctx context.Context, req *kmsg.JoinGroupRequest) (kmsg.Response, error) {
	c.mu.Lock()
	resp := kmsg.NewPtrJoinGroupResponse()
	m := c.members[req.MemberID]
	switch {
	case c.refuse != nil:
		resp.ErrorCode = c.refuse.Code
	case req.MemberID == "":
		c.next++
		resp.MemberID, resp.ErrorCode = fmt.Sprintf("m%d", c.next), kerr.MemberIDRequired.Code
		c.pending[resp.MemberID] = true
	case m == nil && !c.pending[req.MemberID]:
		resp.ErrorCode = kerr.UnknownMemberID.Code
	}
	if resp.ErrorCode != 0 {
		c.mu.Unlock()
		return resp, nil
	}
	if m == nil {
		delete(c.pending, req.MemberID)
		m = &seat{}
		c.members[req.MemberID] = m
		c.order = append(c.order, req.MemberID)
	}
	m.protocols = req.Protocols
	answer := make(chan *kmsg.JoinGroupResponse, 1)
	m.joining = answer
	c.begin()
	c.mu.Unlock()
	select {
	case resp := <-answer:
		return resp, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// begin starts a rebalance, or ends it when all have joined. Members that do not in time are removed.
func (c *coordinator) begin() {
	c.stable = false
	for _, m := range c.members {
		if m.syncing != nil {
			resp := kmsg.NewPtrSyncGroupResponse()
			resp.ErrorCode = kerr.RebalanceInProgress.Code
			m.syncing <- resp
			m.syncing = nil
		}
	}
	for _, m := range c.members {
		if m.joining == nil {
			if c.timer == nil {
				c.timer = time.AfterFunc(rebalance, func() {
					c.mu.Lock()
					defer c.mu.Unlock()
					for _, id := range slices.Clone(c.order) {
						if c.members[id].joining == nil {
							c.drop(id)
						}
					}
					c.complete()
				})
			}
			return
		}
	}
	c.complete()
}

func (c *coordinator) complete() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if len(c.members) == 0 {
		return
	}
	c.generation++
	c.shares = nil
	c.protocol = c.common()
	for _, id := range c.order {
		m := c.members[id]
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.MemberID, resp.LeaderID, resp.Generation = id, c.order[0], c.generation
		protocol := c.protocol
		resp.Protocol = &protocol
		if id == c.order[0] {
			for _, other := range c.order {
				for _, p := range c.members[other].protocols {
					if p.Name == c.protocol {
						resp.Members = append(resp.Members, kmsg.JoinGroupResponseMember{MemberID: other, ProtocolMetadata: p.Metadata})
					}
				}
			}
		}
		m.joining <- resp
		m.joining = nil
		c.alive(id)
	}
}

// common is the first protocol of the first member that all have.
func (c *coordinator) common() string {
	for _, p := range c.members[c.order[0]].protocols {
		everyone := true
		for _, m := range c.members {
			everyone = everyone && slices.ContainsFunc(m.protocols, func(o kmsg.JoinGroupRequestProtocol) bool { return o.Name == p.Name })
		}
		if everyone {
			return p.Name
		}
	}
	return ""
}

// alive begins a member's session anew.
func (c *coordinator) alive(id string) {
	m := c.members[id]
	if m.session != nil {
		m.session.Stop()
	}
	m.session = time.AfterFunc(session, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.members[id] == m && m.joining == nil {
			c.remove(id)
		}
	})
}

func (c *coordinator) drop(id string) {
	if m := c.members[id]; m != nil && m.session != nil {
		m.session.Stop()
	}
	delete(c.members, id)
	c.order = slices.DeleteFunc(c.order, func(o string) bool { return o == id })
}

func (c *coordinator) remove(id string) {
	if c.members[id] == nil {
		return
	}
	c.drop(id)
	if len(c.members) > 0 {
		c.begin()
	}
}

func (c *coordinator) sync(ctx context.Context, req *kmsg.SyncGroupRequest) (kmsg.Response, error) {
	c.mu.Lock()
	resp := kmsg.NewPtrSyncGroupResponse()
	m := c.members[req.MemberID]
	switch {
	case c.refuse != nil:
		resp.ErrorCode = c.refuse.Code
	case m == nil:
		resp.ErrorCode = kerr.UnknownMemberID.Code
	case req.Generation != c.generation:
		resp.ErrorCode = kerr.IllegalGeneration.Code
	case m.joining != nil || c.timer != nil:
		resp.ErrorCode = kerr.RebalanceInProgress.Code
	}
	if resp.ErrorCode != 0 {
		c.mu.Unlock()
		return resp, nil
	}
	c.alive(req.MemberID)
	answer := make(chan *kmsg.SyncGroupResponse, 1)
	m.syncing = answer
	if req.MemberID == c.order[0] {
		c.shares = map[string][]byte{}
		for _, a := range req.GroupAssignment {
			c.shares[a.MemberID] = a.MemberAssignment
		}
	}
	if c.shares != nil {
		c.stable = true
		for id, m := range c.members {
			if m.syncing != nil {
				resp := kmsg.NewPtrSyncGroupResponse()
				resp.MemberAssignment = c.shares[id]
				m.syncing <- resp
				m.syncing = nil
			}
		}
	}
	c.mu.Unlock()
	select {
	case resp := <-answer:
		return resp, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *coordinator) beat(req *kmsg.HeartbeatRequest) int16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.refuse != nil:
		return c.refuse.Code
	case c.members[req.MemberID] == nil:
		return kerr.UnknownMemberID.Code
	case req.Generation != c.generation:
		return kerr.IllegalGeneration.Code
	}
	c.alive(req.MemberID)
	if !c.stable {
		return kerr.RebalanceInProgress.Code
	}
	return 0
}
