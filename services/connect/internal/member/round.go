package member

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/connect/internal/protocol"
)

// round joins the group and stays until there is a reason to join again, which is an error unless it is the usual one.
func (m *Member) round(ctx context.Context) error {
	if err := m.find(ctx); err != nil {
		return err
	}
	if m.last != nil && m.protocol == protocol.Eager {
		m.stopAll(ctx)
	}
	joined, err := m.join(ctx)
	if err != nil {
		return err
	}
	a, err := m.sync(ctx, joined)
	if err != nil {
		return err
	}
	return m.stay(ctx, a)
}

// find asks a broker who coordinates the group, unless that is known.
func (m *Member) find(ctx context.Context) error {
	if m.coordinator != "" {
		return nil
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = m.config.GroupID, []string{m.config.GroupID}
	broker := m.config.Bootstrap[m.bootstrap%len(m.config.Bootstrap)]
	m.bootstrap++
	answer, err := m.deps.Do(ctx, broker, req)
	if err != nil {
		return err
	}
	resp := answer.(*kmsg.FindCoordinatorResponse)
	code, host, port := resp.ErrorCode, resp.Host, resp.Port
	if len(resp.Coordinators) > 0 {
		code, host, port = resp.Coordinators[0].ErrorCode, resp.Coordinators[0].Host, resp.Coordinators[0].Port
	}
	if err := kerr.ErrorForCode(code); err != nil {
		return fmt.Errorf("find the coordinator: %w", err)
	}
	m.coordinator = net.JoinHostPort(host, strconv.Itoa(int(port)))
	return nil
}

func (m *Member) join(ctx context.Context) (*kmsg.JoinGroupResponse, error) {
	// What asked for this round so far is done by it.
	select {
	case <-m.rejoin:
	default:
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = m.config.GroupID, m.id, protocol.Type
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(m.config.SessionTimeout.Milliseconds()), int32(m.config.RebalanceTimeout.Milliseconds())
	offset, _ := m.deps.Configs()
	for _, v := range m.config.Version.Offers() {
		metadata := protocol.Metadata{Version: v, URL: m.config.URL, ConfigOffset: offset, Current: m.current()}
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = v.String(), metadata.Encode()
		req.Protocols = append(req.Protocols, p)
	}
	answer, err := m.deps.Do(ctx, m.coordinator, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.JoinGroupResponse)
	if resp.ErrorCode == kerr.MemberIDRequired.Code {
		m.id = resp.MemberID
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	m.contact, m.confirmed = time.Now(), false
	m.id, m.generation = resp.MemberID, resp.Generation
	if resp.Protocol == nil {
		return nil, fmt.Errorf("join: %w: the group has no protocol", kerr.InconsistentGroupProtocol)
	}
	version, ok := protocol.VersionOf(*resp.Protocol)
	if !ok {
		return nil, fmt.Errorf("join: %w: the group's is %q", kerr.InconsistentGroupProtocol, *resp.Protocol)
	}
	m.protocol = version
	return resp, nil
}

// current is what the worker tells the leader that it runs; nil when it has been told nothing.
func (m *Member) current() *protocol.Assignment {
	if m.last == nil {
		return nil
	}
	return &protocol.Assignment{Leader: m.last.Leader, LeaderURL: m.last.LeaderURL, ConfigOffset: m.last.ConfigOffset, Assigned: m.mine()}
}

// sync gets the worker's assignment, having made those of all if it leads.
func (m *Member) sync(ctx context.Context, joined *kmsg.JoinGroupResponse) (*protocol.Assignment, error) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = m.config.GroupID, m.id, m.generation
	kind, name := protocol.Type, m.protocol.String()
	req.ProtocolType, req.Protocol = &kind, &name
	m.owners, m.revoking = nil, false
	if joined.LeaderID == m.id {
		for _, one := range m.lead(ctx, joined.Members) {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = one.id, one.assignment.Encode()
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
	}
	answer, err := m.deps.Do(ctx, m.coordinator, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.SyncGroupResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	m.contact = time.Now()
	a, err := protocol.DecodeAssignment(resp.MemberAssignment)
	if err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	m.completed, m.agreed = m.generation, m.protocol
	return &a, nil
}

// heartbeat tells the coordinator that the worker is there, for no longer than the coordinator would wait for it. What counts is when it was sent: the
// coordinator's own count begins later.
func (m *Member) heartbeat(ctx context.Context) error {
	ctx, cancel := context.WithDeadline(ctx, m.contact.Add(m.config.SessionTimeout))
	defer cancel()
	if err := m.find(ctx); err != nil {
		return err
	}
	sent := time.Now()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = m.config.GroupID, m.id, m.generation
	answer, err := m.deps.Do(ctx, m.coordinator, req)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(answer.(*kmsg.HeartbeatResponse).ErrorCode); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	m.contact, m.confirmed = sent, true
	return nil
}

// leave tells the coordinator that the worker goes. Where that fails the group finds out by itself.
func (m *Member) leave(ctx context.Context) {
	if m.id == "" || m.coordinator == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.config.HeartbeatInterval)
	defer cancel()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = m.config.GroupID, m.id
	one := kmsg.NewLeaveGroupRequestMember()
	one.MemberID = m.id
	req.Members = append(req.Members, one)
	if _, err := m.deps.Do(ctx, m.coordinator, req); err != nil {
		m.deps.Log.Sugar().Infof("leaving the group: %v", err)
	}
	m.id, m.generation = "", noGeneration
}
