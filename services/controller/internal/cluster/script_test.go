package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/security"
)

// TestScripts runs testdata/*.txt. A command's answer and the records that it
// commits are its expected output; -rewrite writes them anew.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		h := newHarness(t, 1, nil)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			h.t = t
			run, ok := commands[d.Cmd]
			if !ok {
				d.Fatalf(t, "no such command")
			}
			out := run(h, d)
			if out == "" {
				out = "ok\n"
			}
			return out
		})
		h.t = t
		h.checkReplay()
	})
}

var commands = map[string]func(*harness, *datadriven.TestData) string{
	"register":          scriptRegister,
	"heartbeat":         scriptHeartbeat,
	"wait":              scriptWait,
	"absent":            scriptAbsent,
	"new-term":          scriptNewTerm,
	"static":            scriptStatic,
	"create-topics":     scriptCreateTopics,
	"delete-topics":     scriptDeleteTopics,
	"create-partitions": scriptCreatePartitions,
	"alter":             scriptAlter,
	"incremental-alter": scriptIncrementalAlter,
	"update-features":   scriptUpdateFeatures,
	"unregister":        scriptUnregister,
	"producer-ids":      scriptProducerIDs,
	"alter-partition":   scriptAlterPartition,
	"describe-quorum":   scriptDescribeQuorum,
	"fail-replicas":     scriptFailReplicas,
	"elect":             scriptElect,
	"balance":           scriptBalance,
	"elect-unclean":     scriptElectUnclean,
	"reassign":          scriptReassign,
	"reassignments":     scriptReassignments,
	"show":              scriptShow,
}

// argInt and argText are an argument of a command, or what it is when not given.
func argInt(d *datadriven.TestData, name string, otherwise int64) int64 {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			n, err := strconv.ParseInt(a.Vals[0], 10, 64)
			if err != nil {
				panic(fmt.Sprintf("%s: %s: %v", d.Pos, name, err))
			}
			return n
		}
	}
	return otherwise
}

func argText(d *datadriven.TestData, name, otherwise string) string {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return strings.Join(a.Vals, ",")
		}
	}
	return otherwise
}

// lines are the lines of a command's input, in words.
func lines(d *datadriven.TestData) [][]string {
	var out [][]string
	for line := range strings.Lines(d.Input) {
		if words := strings.Fields(line); len(words) > 0 {
			out = append(out, words)
		}
	}
	return out
}

// register node=N [roles=(broker,…)] [rack=R] [run=N] [prev=EPOCH|last] [cluster=ID] [dir=N] [features=none|old]
func scriptRegister(h *harness, d *datadriven.TestData) string {
	id := int32(argInt(d, "node", 1))
	r := Registration{
		NodeID: id, ClusterID: argText(d, "cluster", ""), Rack: argText(d, "rack", ""),
		Incarnation: [16]byte{byte(id), byte(argInt(d, "run", 1))},
		Roles:       strings.Split(argText(d, "roles", "broker"), ","),
		Listeners:   []metadata.Listener{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}},
		Features:    metadata.SupportedFeatures(), PreviousEpoch: -1,
		LogDirs: [][16]byte{{byte(argInt(d, "dir", int64(id)))}},
	}
	switch argText(d, "features", "") {
	case "none":
		r.Features = nil
	case "old":
		r.Features[metadata.FeatureTransactionVersion] = metadata.FeatureRange{Min: 0, Max: 1}
	}
	if d.HasArg("no-listeners") {
		r.Listeners = nil
	}
	if d.HasArg("dir-twice") {
		r.LogDirs = append(r.LogDirs, r.LogDirs[0])
	}
	if n, ok := h.im.Node(id); ok && argText(d, "prev", "") == "last" {
		r.PreviousEpoch = n.Epoch
	}
	epoch, recs, err := h.sessions.Register(h.im, h.env, r)
	if err != nil {
		return errorVerdict(err) + "\n"
	}
	return fmt.Sprintf("epoch %d\n", epoch) + h.commit(recs)
}

// heartbeat node=N [epoch=E] [offset=O] [want-fence] [want-shutdown]
func scriptHeartbeat(h *harness, d *datadriven.TestData) string {
	id := int32(argInt(d, "node", 1))
	epoch := int64(-1)
	if n, ok := h.im.Node(id); ok {
		epoch = n.Epoch
	}
	a, recs, err := h.sessions.Heartbeat(h.im, h.env, Beat{
		NodeID: id, Epoch: argInt(d, "epoch", epoch), Offset: argInt(d, "offset", h.im.Offset()),
		WantFence: d.HasArg("want-fence"), WantShutdown: d.HasArg("want-shutdown"),
	})
	if err != nil {
		return errorVerdict(err) + "\n"
	}
	return fmt.Sprintf("caught up %v, fenced %v, should shut down %v\n", a.CaughtUp, a.Fenced, a.ShouldShutdown) + h.commit(recs)
}

// wait ms=N: time passes, and silent nodes are fenced.
func scriptWait(h *harness, d *datadriven.TestData) string {
	h.env.NowMs += argInt(d, "ms", 0)
	var out string
	for {
		node, recs, ok := h.sessions.Expire(h.im, h.env)
		if !ok {
			break
		}
		out += fmt.Sprintf("node %d expired\n", node) + h.commit(recs)
	}
	if at, ok := h.sessions.NextExpiryMs(h.im); ok {
		return out + fmt.Sprintf("next expiry in %d ms\n", at-h.env.NowMs)
	}
	return out + "nothing to expire\n"
}

// absent node=N [epoch=E] [ago=MS] [refused]: the node's process has left the bus.
func scriptAbsent(h *harness, d *datadriven.TestData) string {
	id := int32(argInt(d, "node", 1))
	epoch := int64(-1)
	if n, ok := h.im.Node(id); ok {
		epoch = n.Epoch
	}
	recs, fenced := h.sessions.Absent(h.im, h.env, Absence{
		NodeID: id, Epoch: argInt(d, "epoch", epoch), SinceMs: h.env.NowMs - argInt(d, "ago", 0), Refused: d.HasArg("refused"),
	})
	return fmt.Sprintf("fenced %v\n", fenced) + h.commit(recs)
}

// new-term term=N: another controller takes over.
func scriptNewTerm(h *harness, d *datadriven.TestData) string {
	return h.activate(argInt(d, "term", 2))
}

// static: the controller starts anew with other settings, one key=value a line.
func scriptStatic(h *harness, d *datadriven.TestData) string {
	pairs := map[string]string{}
	for _, words := range lines(d) {
		key, value, _ := strings.Cut(words[0], "=")
		pairs[key] = value
	}
	n := newHarness(h.t, 1, pairs)
	h.env.Static = n.env.Static
	h.sessions.timeoutMs = n.sessions.timeoutMs
	return ""
}

// create-topics [version=V] [validate-only] [as=PRINCIPAL], a topic a line:
// NAME [partitions=N] [rf=N] [assign=0:1,2;1:2,3] [key=value]…; value (null) is null.
func scriptCreateTopics(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = int16(argInt(d, "version", 7))
	req.ValidateOnly = d.HasArg("validate-only")
	for _, words := range lines(d) {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = unquote(words[0]), -1, -1
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			switch key {
			case "partitions":
				t.NumPartitions = int32(number(value))
			case "rf":
				t.ReplicationFactor = int16(number(value))
			case "assign":
				for part := range strings.SplitSeq(value, ";") {
					a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
					p, list, _ := strings.Cut(part, ":")
					a.Partition, a.Replicas = int32(number(p)), numbers(list)
					t.ReplicaAssignment = append(t.ReplicaAssignment, a)
				}
			default:
				c := kmsg.NewCreateTopicsRequestTopicConfig()
				c.Name, c.Value = key, nullable(value)
				t.Configs = append(t.Configs, c)
			}
		}
		req.Topics = append(req.Topics, t)
	}
	principal, err := security.ParsePrincipal(argText(d, "as", anyone.String()))
	if err != nil {
		d.Fatalf(h.t, "%v", err)
	}
	out := Handle(h.im, h.env, req, principal)
	var b strings.Builder
	for _, t := range out.Response.(*kmsg.CreateTopicsResponse).Topics {
		show := verdict
		if t.ErrorCode == kerr.InvalidConfig.Code {
			show = configVerdict
		}
		fmt.Fprintf(&b, "%s: %s", t.Topic, show(t.ErrorCode, t.ErrorMessage))
		if t.ErrorCode == 0 {
			fmt.Fprintf(&b, " partitions %d replication factor %d", t.NumPartitions, t.ReplicationFactor)
			for _, c := range t.Configs {
				if kmsg.ConfigSource(c.Source) != kmsg.ConfigSourceDefaultConfig {
					fmt.Fprintf(&b, " %s=%s(%s)", c.Name, *c.Value, kmsg.ConfigSource(c.Source))
				}
			}
		}
		b.WriteByte('\n')
	}
	return b.String() + h.commit(out.Records)
}

// delete-topics [version=V], a topic a line: NAME, id:NAME, id:? (of no topic), both:NAME, none.
func scriptDeleteTopics(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = int16(argInt(d, "version", 6))
	for _, words := range lines(d) {
		kind, name, found := strings.Cut(words[0], ":")
		if !found {
			name = kind
		}
		t := kmsg.NewDeleteTopicsRequestTopic()
		if topic, ok := h.im.Topic(name); ok && found {
			t.TopicID = topic.ID
		} else if found {
			t.TopicID = [16]byte{42}
		}
		if kind != "id" && name != "none" {
			t.Topic = &name
		}
		if req.Version < 6 {
			req.TopicNames = append(req.TopicNames, name)
		} else {
			req.Topics = append(req.Topics, t)
		}
	}
	out := Handle(h.im, h.env, req, anyone)
	var b strings.Builder
	for _, t := range out.Response.(*kmsg.DeleteTopicsResponse).Topics {
		name := "(null)"
		if t.Topic != nil {
			name = *t.Topic
		}
		fmt.Fprintf(&b, "%s id %v: %s\n", name, t.TopicID != [16]byte{}, verdict(t.ErrorCode, t.ErrorMessage))
	}
	return b.String() + h.commit(out.Records)
}

// create-partitions [validate-only], a topic a line: NAME COUNT [1,2;2,3].
func scriptCreatePartitions(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.ValidateOnly = 3, d.HasArg("validate-only")
	for _, words := range lines(d) {
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = words[0], int32(number(words[1]))
		if len(words) > 2 {
			for list := range strings.SplitSeq(words[2], ";") {
				a := kmsg.NewCreatePartitionsRequestTopicAssignment()
				a.Replicas = numbers(list)
				t.Assignment = append(t.Assignment, a)
			}
		}
		req.Topics = append(req.Topics, t)
	}
	out := Handle(h.im, h.env, req, anyone)
	var b strings.Builder
	for _, t := range out.Response.(*kmsg.CreatePartitionsResponse).Topics {
		fmt.Fprintf(&b, "%s: %s\n", t.Topic, verdict(t.ErrorCode, t.ErrorMessage))
	}
	return b.String() + h.commit(out.Records)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func numbers(list string) []int32 {
	var out []int32
	for s := range strings.SplitSeq(list, ",") {
		if s != "" {
			out = append(out, int32(number(s)))
		}
	}
	return out
}

func unquote(s string) string {
	if u, err := strconv.Unquote(s); err == nil {
		return u
	}
	return s
}

func nullable(s string) *string {
	if s == "(null)" {
		return nil
	}
	return &s
}

// show: the image, or of it the lines that begin with the given words.
func scriptShow(h *harness, d *datadriven.TestData) string {
	var out string
	for line := range strings.Lines(dumpImage(h.im)) {
		if len(d.CmdArgs) == 0 || slices.ContainsFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return strings.HasPrefix(line, a.Key) }) {
			out += line
		}
	}
	return out
}
