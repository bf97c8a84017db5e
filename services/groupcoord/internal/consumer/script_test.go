package consumer

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/offsets"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// TestScripts runs testdata/*.txt. The expected output of a command is what it writes, asks and answers; -rewrite writes it anew. After
// each command the records must give the group's state.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newWorld(t, nil, map[string]string{})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			run, ok := commands[d.Cmd]
			if !ok {
				d.Fatalf(t, "no such command")
			}
			seen := len(w.log)
			text := run(w, d)
			if a, b := hard(w.group), hard(replayed(t, compact(w.log))); !reflect.DeepEqual(a, b) {
				d.Fatalf(t, "the log does not lead to the state\n have %+v\n want %+v", b, a)
			}
			return text + w.took(seen)
		})
	})
}

var commands = map[string]func(*world, *datadriven.TestData) string{
	"broker":    scriptBroker,
	"settings":  scriptSettings,
	"topics":    scriptTopics,
	"drop":      scriptDrop,
	"wait":      scriptWait,
	"move":      scriptMove,
	"hb":        scriptHeartbeat,
	"assign":    scriptAssign,
	"fail":      scriptFail,
	"join":      scriptJoin,
	"sync":      scriptSync,
	"classic":   scriptClassic,
	"leave":     scriptLeave,
	"describe":  scriptDescribe,
	"commit":    scriptCommit,
	"fetch":     scriptFetch,
	"follows":   scriptFollows,
	"old":       scriptOld,
	"downgrade": scriptDowngrade,
	"upgrade":   scriptUpgrade,
}

// took is what operations brought about.
func (w *world) took(seen int) string {
	var b strings.Builder
	for _, r := range w.log[seen:] {
		record, err := schema.Decode(r)
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "record %s\n", w.record(record))
	}
	for _, a := range w.answers {
		fmt.Fprintf(&b, "#%d %s\n", a.Ticket, w.response(a.Response))
	}
	for _, f := range w.failures {
		fmt.Fprintf(&b, "failure %s %d %s: %v\n", f.Group, f.Epoch, f.Assignor, f.Err)
	}
	if q := w.question; q != nil && q != w.shown {
		fmt.Fprintf(&b, "question %s epoch=%d", q.Assignor, q.Epoch)
		for _, m := range q.Members {
			fmt.Fprintf(&b, " %s", m.ID)
		}
		fmt.Fprintf(&b, " of %d topics\n", len(q.Topics))
	}
	w.answers, w.failures, w.shown = nil, nil, w.question
	if b.Len() == 0 {
		return "ok\n"
	}
	return b.String()
}

func (w *world) record(record schema.Record) string {
	switch r := record.(type) {
	case *schema.ConsumerGroupMetadata:
		if r.Value == nil {
			return "group gone"
		}
		return fmt.Sprintf("group epoch=%d", r.Value.Epoch)
	case *schema.ConsumerGroupPartitionMetadata:
		return fmt.Sprintf("partition metadata gone=%v", r.Value == nil)
	case *schema.ConsumerGroupMemberMetadata:
		if r.Value == nil {
			return "member " + r.Member + " gone"
		}
		text := fmt.Sprintf("member %s %v", r.Member, r.Value.Topics)
		if r.Value.Expression != "" {
			text += fmt.Sprintf(" /%s/", r.Value.Expression)
		}
		if r.Value.InstanceID != "" {
			text += " instance=" + r.Value.InstanceID
		}
		if r.Value.Assignor != "" {
			text += " assignor=" + r.Value.Assignor
		}
		if r.Value.Classic != nil {
			text += " classic"
		}
		return text
	case *schema.ConsumerGroupTargetAssignmentMetadata:
		if r.Value == nil {
			return "target gone"
		}
		return fmt.Sprintf("target epoch=%d", r.Value.Epoch)
	case *schema.ConsumerGroupTargetAssignmentMember:
		if r.Partitions == nil {
			return "target " + r.Member + " gone"
		}
		return "target " + r.Member + " " + w.show(r.Partitions)
	case *schema.ConsumerGroupCurrentMemberAssignment:
		if r.Value == nil {
			return "current " + r.Member + " gone"
		}
		state := []string{"stable", "unrevoked", "unreleased"}[r.Value.State]
		return fmt.Sprintf("current %s epoch=%d previous=%d %s has %s revokes %s", r.Member, r.Value.Epoch, r.Value.Previous, state, w.show(ints(r.Value.Assigned)), w.show(ints(r.Value.Revoking)))
	case *schema.ConsumerGroupRegularExpression:
		if r.Value == nil {
			return "expression /" + r.Expression + "/ gone"
		}
		return fmt.Sprintf("expression /%s/ %v", r.Expression, r.Value.Topics)
	case *schema.GroupMetadata:
		text := fmt.Sprintf("classic group %s generation=%d protocol=%s leader=%s", r.Value.ProtocolType, r.Value.Generation, *r.Value.Protocol, *r.Value.Leader)
		for _, m := range r.Value.Members {
			text += fmt.Sprintf("\n  %s %s", m.MemberID, w.assigned(m.Assignment))
		}
		return text
	}
	return fmt.Sprintf("%T", record)
}

// failed is an error code and its words; empty for none.
func failed(code int16, message *string) string {
	if code == 0 {
		return ""
	}
	text := kerr.TypedErrorForCode(code).Message
	if message != nil {
		text += ": " + *message
	}
	return text
}

func (w *world) response(response any) string {
	switch r := response.(type) {
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if text := failed(r.ErrorCode, r.ErrorMessage); text != "" {
			return text
		}
		text := fmt.Sprintf("%s epoch=%d", *r.MemberID, r.MemberEpoch)
		if r.Assignment != nil {
			partitions := assignment.Partitions{}
			for _, tp := range r.Assignment.Topics {
				partitions[tp.TopicID] = tp.Partitions
			}
			text += " assigned " + w.show(partitions)
		}
		if r.HeartbeatIntervalMillis != 5000 && r.MemberEpoch > 0 {
			text += fmt.Sprintf(" interval=%d", r.HeartbeatIntervalMillis)
		}
		return text
	case *kmsg.JoinGroupResponse:
		if text := failed(r.ErrorCode, nil); text != "" {
			return "join " + text + " " + r.MemberID
		}
		return fmt.Sprintf("join %s generation=%d %s/%s leader=%q members=%d", r.MemberID, r.Generation, *r.ProtocolType, *r.Protocol, r.LeaderID, len(r.Members))
	case *kmsg.SyncGroupResponse:
		if text := failed(r.ErrorCode, nil); text != "" {
			return "sync " + text
		}
		return "sync " + w.assigned(r.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		return "heartbeat " + failed(r.ErrorCode, nil)
	case *kmsg.LeaveGroupResponse:
		text := "leave " + failed(r.ErrorCode, nil)
		for _, m := range r.Members {
			text += fmt.Sprintf(" %s:%s", m.MemberID, failed(m.ErrorCode, nil))
		}
		return text
	}
	return fmt.Sprintf("%T", response)
}

// assigned is what a member of the classic protocol reads of its assignment.
func (w *world) assigned(b []byte) string {
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(b); err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("v%d", a.Version)
	for _, tp := range a.Topics {
		text += fmt.Sprintf(" %s:%v", tp.Topic, tp.Partitions)
	}
	return text
}

func text(d *datadriven.TestData, name string) *string {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			joined := strings.Join(a.Vals, ",")
			return &joined
		}
	}
	return nil
}

func number(d *datadriven.TestData, name string, otherwise int32) int32 {
	s := text(d, name)
	if s == nil {
		return otherwise
	}
	n, err := strconv.ParseInt(*s, 10, 32)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", d.Pos, err))
	}
	return int32(n)
}

func list(d *datadriven.TestData, name string) []string {
	s := text(d, name)
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(strings.Split(*s, ","), func(e string) bool { return e == "" })
}

// partitions reads topic:0 topic:1 … of an argument.
func (w *world) partitions(names []string) assignment.Partitions {
	out := assignment.Partitions{}
	for _, name := range names {
		topic, p, _ := strings.Cut(name, ":")
		n, err := strconv.ParseInt(p, 10, 32)
		t, ok := w.image.Topic(topic)
		if err != nil || !ok {
			w.t.Fatalf("%q is no partition", name)
		}
		out[t.ID] = append(out[t.ID], int32(n))
	}
	return out
}

// broker key=value…: the broker's settings.
func scriptBroker(w *world, d *datadriven.TestData) string {
	pairs := map[string]string{}
	for _, a := range d.CmdArgs {
		pairs[a.Key] = strings.Join(a.Vals, ",")
	}
	values, err := config.FromMap(configkeys.Broker(), pairs)
	if err != nil {
		w.t.Fatal(err)
	}
	w.settings = &op.Settings{Broker: values, Group: w.settings.Group}
	return ""
}

// settings key=value…: the group's settings.
func scriptSettings(w *world, d *datadriven.TestData) string {
	pairs := map[string]string{}
	for _, a := range d.CmdArgs {
		pairs[a.Key] = a.Vals[0]
	}
	w.settings = &op.Settings{Broker: w.settings.Broker, Group: func(string) map[string]string { return pairs }}
	return ""
}

// topics name=partitions…: creates topics, or gives them more partitions.
func scriptTopics(w *world, d *datadriven.TestData) string {
	for _, a := range d.CmdArgs {
		n, err := strconv.Atoi(a.Vals[0])
		if err != nil {
			w.t.Fatal(err)
		}
		if _, ok := w.image.Topic(a.Key); ok {
			w.grow(a.Key, n)
		} else {
			w.createTopic(a.Key, n)
		}
	}
	return ""
}

// drop name…: deletes topics.
func scriptDrop(w *world, d *datadriven.TestData) string {
	for _, a := range d.CmdArgs {
		w.deleteTopic(a.Key)
	}
	return ""
}

func scriptWait(w *world, d *datadriven.TestData) string {
	v, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		w.t.Fatal(err)
	}
	w.advance(v)
	return ""
}

// move: another coordinator takes over.
func scriptMove(w *world, _ *datadriven.TestData) string {
	w.move(true)
	return ""
}

// hb MEMBER [epoch=0] [topics=(a,b)] [regex=] [owned=(a:0)] [instance=] [rack=] [assignor=] [timeout=60000] [v=1]: join has all that a first
// request needs, nothing but what is given is said otherwise.
func scriptHeartbeat(w *world, d *datadriven.TestData) string {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberEpoch = int16(number(d, "v", 1)), groupID, number(d, "epoch", 0)
	if d.CmdArgs[0].Key != "-" {
		req.MemberID = d.CmdArgs[0].Key
	}
	if g := text(d, "group"); g != nil {
		req.Group = *g
	}
	req.InstanceID, req.RackID, req.ServerAssignor, req.SubscribedTopicRegex = text(d, "instance"), text(d, "rack"), text(d, "assignor"), text(d, "regex")
	if d.HasArg("topics") {
		req.SubscribedTopicNames = append([]string{}, list(d, "topics")...)
	}
	req.RebalanceTimeoutMillis = number(d, "timeout", -1)
	if d.HasArg("owned") || req.MemberEpoch == joinEpoch {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for id, partitions := range w.partitions(list(d, "owned")) {
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: partitions})
		}
	}
	if req.MemberEpoch == joinEpoch && !d.HasArg("timeout") {
		req.RebalanceTimeoutMillis = 60_000
	}
	if err := CheckHeartbeat(w.settings, req); err != nil {
		return "refused " + failed(codeOf(err), nil) + ": " + err.Error() + "\n"
	}
	w.last++
	w.do(func(o *op.Op) {
		w.group.ConsumerHeartbeat(o, w.last, op.Client{ID: "c", Host: "/127.0.0.1", Fresh: fmt.Sprint("fresh", w.last)}, req)
	})
	return ""
}

// assign [MEMBER=(a:0,a:1)…]: the assignor's answer; without arguments a good one.
func scriptAssign(w *world, d *datadriven.TestData) string {
	if w.question == nil {
		return "there is no question\n"
	}
	out := assignment.Output{}
	for _, a := range d.CmdArgs {
		out[a.Key] = w.partitions(slices.DeleteFunc(a.Vals, func(s string) bool { return s == "" }))
	}
	if len(d.CmdArgs) == 0 {
		out = assign(w.question)
	}
	w.answer(out, nil)
	return ""
}

// fail REASON: the assignor gives no answer.
func scriptFail(w *world, d *datadriven.TestData) string {
	if w.question == nil {
		return "there is no question\n"
	}
	w.answer(nil, errors.New(d.CmdArgs[0].Key))
	return ""
}

// join MEMBER [topics=(a)] [owned=(a:0)] [instance=] [protocols=(range)] [v=9] [type=consumer]: joins by the classic protocol.
func scriptJoin(w *world, d *datadriven.TestData) string {
	m := kmsg.ConsumerMemberMetadata{Version: 3, Topics: list(d, "topics"), Generation: -1}
	for id, partitions := range w.partitions(list(d, "owned")) {
		t, _ := w.image.TopicByID(id)
		m.OwnedPartitions = append(m.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: t.Name, Partitions: partitions})
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.InstanceID, req.ProtocolType = int16(number(d, "v", 9)), groupID, text(d, "instance"), protocolType
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 20_000
	if d.CmdArgs[0].Key != "-" {
		req.MemberID = d.CmdArgs[0].Key
	}
	if s := text(d, "type"); s != nil {
		req.ProtocolType = *s
	}
	names := []string{"range"}
	if d.HasArg("protocols") {
		names = list(d, "protocols")
	}
	for _, name := range names {
		p := kmsg.JoinGroupRequestProtocol{Name: name, Metadata: m.AppendTo(nil)}
		if d.HasArg("garbage") {
			p.Metadata = []byte{0, 1, 2}
		}
		req.Protocols = append(req.Protocols, p)
	}
	w.last++
	w.do(func(o *op.Op) {
		w.group.Join(o, w.last, op.Client{ID: "c", Host: "/127.0.0.1", Fresh: fmt.Sprint("fresh", w.last)}, req)
	})
	return ""
}

func scriptSync(w *world, d *datadriven.TestData) string {
	w.last++
	w.do(func(o *op.Op) {
		w.group.Sync(o, w.last, &kmsg.SyncGroupRequest{Version: 5, Group: groupID, MemberID: d.CmdArgs[0].Key, Generation: number(d, "generation", 0), InstanceID: text(d, "instance"),
			ProtocolType: text(d, "type"), Protocol: text(d, "protocol")})
	})
	return ""
}

// classic MEMBER generation=N: a heartbeat of the classic protocol.
func scriptClassic(w *world, d *datadriven.TestData) string {
	w.last++
	w.do(func(o *op.Op) {
		w.group.Heartbeat(o, w.last, &kmsg.HeartbeatRequest{Version: 4, Group: groupID, MemberID: d.CmdArgs[0].Key, Generation: number(d, "generation", 0), InstanceID: text(d, "instance")})
	})
	return ""
}

// leave MEMBER|/INSTANCE…: members of the classic protocol leave.
func scriptLeave(w *world, d *datadriven.TestData) string {
	req := &kmsg.LeaveGroupRequest{Version: 5, Group: groupID}
	for _, a := range d.CmdArgs {
		m := kmsg.LeaveGroupRequestMember{MemberID: a.Key}
		if id, instance, static := strings.Cut(a.Key, "/"); static {
			m.MemberID, m.InstanceID = id, &instance
		}
		req.Members = append(req.Members, m)
	}
	w.last++
	w.do(func(o *op.Op) { w.group.Leave(o, w.last, req) })
	return ""
}

func scriptDescribe(w *world, _ *datadriven.TestData) string {
	var b strings.Builder
	w.do(func(o *op.Op) {
		g := w.group.Describe(o)
		fmt.Fprintf(&b, "%s %s epoch=%d assignment=%d assignor=%s\n", g.Group, g.State, g.Epoch, g.AssignmentEpoch, g.AssignorName)
		for _, m := range g.Members {
			fmt.Fprintf(&b, "  %s epoch=%d type=%d %v has %s target %s\n", m.MemberID, m.MemberEpoch, m.MemberType, m.SubscribedTopics, names(m.Assignment), names(m.TargetAssignment))
		}
	})
	return b.String()
}

func names(a kmsg.Assignment) string {
	var all []string
	for _, tp := range a.TopicPartitions {
		all = append(all, fmt.Sprintf("%s%v", tp.Topic, tp.Partitions))
	}
	return fmt.Sprint(all)
}

// commit MEMBER epoch=N [v=9] [transactional] [of=(a:0)]: whether a commit is let in, and for which partitions.
func scriptCommit(w *world, d *datadriven.TestData) string {
	by := offsets.Committer{MemberID: d.CmdArgs[0].Key, Epoch: number(d, "epoch", -1), Version: int16(number(d, "v", 9)), Transactional: d.HasArg("transactional")}
	if by.MemberID == "-" {
		by.MemberID = ""
	}
	var text string
	w.do(func(o *op.Op) {
		admit, err := w.group.AdmitCommit(o, by)
		if err != nil {
			text = failed(codeOf(err), nil) + ": " + err.Error() + "\n"
		}
		for id, partitions := range w.partitions(list(d, "of")) {
			for _, p := range partitions {
				if admit == nil {
					continue
				}
				if err := admit(id, p); err != nil {
					text += failed(codeOf(err), nil) + ": " + err.Error() + "\n"
				}
			}
		}
	})
	return text
}

// fetch MEMBER epoch=N
func scriptFetch(w *world, d *datadriven.TestData) string {
	id := d.CmdArgs[0].Key
	if id == "-" {
		id = ""
	}
	if err := w.group.AdmitFetch(id, number(d, "epoch", -1)); err != nil {
		return failed(codeOf(err), nil) + ": " + err.Error() + "\n"
	}
	return ""
}

// follows TOPIC…: whether the group subscribes to topics.
func scriptFollows(w *world, d *datadriven.TestData) string {
	text := ""
	for _, a := range d.CmdArgs {
		text += fmt.Sprintf("%s %v\n", a.Key, w.group.Subscribed(a.Key))
	}
	return text
}

// old: the log has a record that Apache Kafka before 4.1 wrote.
func scriptOld(w *world, _ *datadriven.TestData) string {
	w.do(func(o *op.Op) {
		o.Emit(&schema.ConsumerGroupPartitionMetadata{Group: groupID, Value: []byte{0, 0, 1, 0}})
	})
	return ""
}

// downgrade: the record of the classic group that the group would become, then the end of the group.
func scriptDowngrade(w *world, _ *datadriven.TestData) string {
	if !w.group.AllClassic() {
		return "not all members are classic\n"
	}
	var text string
	w.do(func(o *op.Op) {
		text = w.record(w.group.Downgrade(o)) + "\n"
		w.group.Dissolve(o)
	})
	if !w.group.Blank() || !w.timers.Next().IsZero() {
		w.t.Fatalf("something is left of the group")
	}
	return text
}
