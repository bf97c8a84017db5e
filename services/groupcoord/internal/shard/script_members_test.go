package shard

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
)

// join GROUP [client=c] [id=MEMBER] [instance=i] [type=consumer] [protocols=(range=a+b,coop=a)] [session=10s] [rebalance=60s] [v=9] [reason=]
func scriptJoin(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(argInt(d, "v", 9))
	req.Group, req.MemberID, req.InstanceID = d.CmdArgs[0].Key, argText(d, "id", ""), argPointer(d, "instance")
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = argMs(d, "session", "10s"), argMs(d, "rebalance", "60s")
	req.ProtocolType, req.Reason = argText(d, "type", "consumer"), argPointer(d, "reason")
	for _, p := range strings.Split(argText(d, "protocols", "range=a"), ",") {
		name, topics, _ := strings.Cut(p, "=")
		proto := kmsg.NewJoinGroupRequestProtocol()
		proto.Name, proto.Metadata = name, []byte(topics)
		if req.ProtocolType == "consumer" {
			proto.Metadata = subscription(strings.Split(topics, "+")...)
		}
		if name != "" {
			req.Protocols = append(req.Protocols, proto)
		}
	}
	return h.ask(argText(d, "client", "c"), req)
}

// sync GROUP id=MEMBER generation=N [instance=i] [assign=(m1=x,m2=y)] [type=] [protocol=] [v=5]
func scriptSync(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = int16(argInt(d, "v", 5))
	req.Group, req.MemberID, req.InstanceID = d.CmdArgs[0].Key, argText(d, "id", ""), argPointer(d, "instance")
	req.Generation = int32(argInt(d, "generation", 1))
	req.ProtocolType, req.Protocol = argPointer(d, "type"), argPointer(d, "protocol")
	for _, a := range strings.Split(argText(d, "assign", ""), ",") {
		id, assignment, _ := strings.Cut(a, "=")
		if id != "" {
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(assignment)})
		}
	}
	return h.ask("c", req)
}

// heartbeat GROUP id=MEMBER generation=N [instance=i]
func scriptHeartbeat(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = 4
	req.Group, req.MemberID, req.InstanceID = d.CmdArgs[0].Key, argText(d, "id", ""), argPointer(d, "instance")
	req.Generation = int32(argInt(d, "generation", 1))
	return h.ask("c", req)
}

// leave GROUP [v=5] members=(id,/instance,id/instance) [reason=]
func scriptLeave(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = int16(argInt(d, "v", 5)), d.CmdArgs[0].Key
	for _, name := range strings.Split(argText(d, "members", ""), ",") {
		m := kmsg.NewLeaveGroupRequestMember()
		id, instance, static := strings.Cut(name, "/")
		m.MemberID, m.Reason = id, argPointer(d, "reason")
		if static {
			m.InstanceID = &instance
		}
		req.Members, req.MemberID = append(req.Members, m), id
	}
	return h.ask("c", req)
}

// describe GROUP… [v=6]
func scriptDescribe(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version = int16(argInt(d, "v", 6))
	for _, a := range d.CmdArgs {
		if a.Key != "v" {
			req.Groups = append(req.Groups, a.Key)
		}
	}
	return h.ask("c", req)
}

// list [states=(Stable,Empty)] [types=classic]
func scriptList(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrListGroupsRequest()
	req.Version = 5
	if d.HasArg("states") {
		req.StatesFilter = strings.Split(argText(d, "states", ""), ",")
	}
	if d.HasArg("types") {
		req.TypesFilter = strings.Split(argText(d, "types", ""), ",")
	}
	return h.ask("c", req)
}

// showResponse is a response in one line, or a few.
func showResponse(response any) string {
	switch r := response.(type) {
	case *kmsg.JoinGroupResponse:
		return showJoined(r)
	case *kmsg.SyncGroupResponse:
		return fmt.Sprintf("sync %s type=%s protocol=%s assignment=%s", codeName(r.ErrorCode), text(r.ProtocolType), text(r.Protocol), r.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		return "heartbeat " + codeName(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		s := "leave " + codeName(r.ErrorCode)
		for _, m := range r.Members {
			s += fmt.Sprintf(" %q/%s:%s", m.MemberID, text(m.InstanceID), codeName(m.ErrorCode))
		}
		return s
	case *kmsg.DescribeGroupsResponse:
		return showDescribed(r)
	case *kmsg.ListGroupsResponse:
		s := "list " + codeName(r.ErrorCode)
		for _, g := range r.Groups {
			s += fmt.Sprintf("\n  %s %q %s %s", g.Group, g.ProtocolType, g.GroupState, g.GroupType)
		}
		return s
	}
	return showOffsets(response)
}

func showJoined(r *kmsg.JoinGroupResponse) string {
	s := fmt.Sprintf("join %s member=%s", codeName(r.ErrorCode), r.MemberID)
	if r.ErrorCode != 0 {
		return s
	}
	s += fmt.Sprintf(" generation=%d type=%s protocol=%s leader=%s", r.Generation, text(r.ProtocolType), text(r.Protocol), r.LeaderID)
	if r.SkipAssignment {
		s += " skip-assignment"
	}
	for _, m := range r.Members {
		s += fmt.Sprintf(" %s/%s[%s]", m.MemberID, text(m.InstanceID), subscribedTo(m.ProtocolMetadata))
	}
	return s
}

func showDescribed(r *kmsg.DescribeGroupsResponse) string {
	var lines []string
	for _, g := range r.Groups {
		s := fmt.Sprintf("%s %s %s type=%q protocol=%q", g.Group, codeName(g.ErrorCode), g.State, g.ProtocolType, g.Protocol)
		if g.ErrorMessage != nil {
			s += fmt.Sprintf(" %q", *g.ErrorMessage)
		}
		for _, m := range g.Members {
			s += fmt.Sprintf("\n  %s/%s %s %s [%s]=%s", m.MemberID, text(m.InstanceID), m.ClientID, m.ClientHost, subscribedTo(m.ProtocolMetadata), m.MemberAssignment)
		}
		left, err := groupapi.Departures(&g.UnknownTags)
		if err != nil {
			return err.Error()
		}
		for _, d := range left {
			s += fmt.Sprintf("\n  left %v ago: %s %s %s removed=%v %q", d.Ago, d.Member, d.Client, d.Host, d.Removed, d.Reason)
		}
		lines = append(lines, s)
	}
	return strings.Join(lines, "\n")
}
