package shard

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// TestScripts runs testdata/*.txt. What a command writes and answers is its expected output; -rewrite writes it anew. After each
// command the records must give the shard's state.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		h := newHarness(t, nil)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			h.t = t
			run, ok := commands[d.Cmd]
			if !ok {
				d.Fatalf(t, "no such command")
			}
			out := run(h, d)
			h.checkReplay()
			if out == "" {
				out = "ok\n"
			}
			return out
		})
	})
}

var commands = map[string]func(*harness, *datadriven.TestData) string{
	"config":           scriptConfig,
	"topics":           scriptTopics,
	"drop":             scriptDrop,
	"wait":             scriptWait,
	"move":             scriptMove,
	"join":             scriptJoin,
	"sync":             scriptSync,
	"heartbeat":        scriptHeartbeat,
	"leave":            scriptLeave,
	"commit":           scriptCommit,
	"txn-commit":       scriptTxnCommit,
	"end-transaction":  scriptEndTransaction,
	"verify":           scriptVerify,
	"fetch":            scriptFetch,
	"delete-offsets":   scriptDeleteOffsets,
	"delete-groups":    scriptDeleteGroups,
	"describe":         scriptDescribe,
	"list":             scriptList,
	"write-old-record": scriptWriteOldRecord,
}

// argText and argInt are an argument of a command, or what it is when not given.
func argText(d *datadriven.TestData, name, otherwise string) string {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return strings.Join(a.Vals, ",")
		}
	}
	return otherwise
}

func argInt(d *datadriven.TestData, name string, otherwise int64) int64 {
	n, err := strconv.ParseInt(argText(d, name, strconv.FormatInt(otherwise, 10)), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", d.Pos, name, err))
	}
	return n
}

// argMs is an argument like 10s in milliseconds.
func argMs(d *datadriven.TestData, name, otherwise string) int32 {
	v, err := time.ParseDuration(argText(d, name, otherwise))
	if err != nil {
		panic(fmt.Sprintf("%s: %s: %v", d.Pos, name, err))
	}
	return int32(v.Milliseconds())
}

// argPointer is nil when an argument is not given.
func argPointer(d *datadriven.TestData, name string) *string {
	if !d.HasArg(name) {
		return nil
	}
	v := argText(d, name, "")
	return &v
}

// config key=value…: the settings from now on.
func scriptConfig(h *harness, d *datadriven.TestData) string {
	h.pairs = maps.Clone(h.pairs)
	if h.pairs == nil {
		h.pairs = map[string]string{}
	}
	for _, a := range d.CmdArgs {
		h.pairs[a.Key] = strings.Join(a.Vals, ",")
	}
	h.settings = settings(h.t, h.pairs)
	return h.show(h.image())
}

// topics name=partitions…: creates topics.
func scriptTopics(h *harness, d *datadriven.TestData) string {
	for _, a := range d.CmdArgs {
		n, err := strconv.Atoi(a.Vals[0])
		if err != nil {
			d.Fatalf(h.t.(*testing.T), "%v", err)
		}
		h.createTopic(a.Key, int32(n))
	}
	return h.show(h.image())
}

// drop name…: deletes topics. With unseen the shard is not told.
func scriptDrop(h *harness, d *datadriven.TestData) string {
	for _, a := range d.CmdArgs {
		if a.Key != "unseen" {
			h.deleteTopic(a.Key)
		}
	}
	if d.HasArg("unseen") {
		return ""
	}
	return h.show(h.image())
}

// wait DURATION
func scriptWait(h *harness, d *datadriven.TestData) string {
	v, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		d.Fatalf(h.t.(*testing.T), "%v", err)
	}
	var b strings.Builder
	start := h.now
	h.wait(v, func(out outcome) {
		if s := h.show(out); s != "" {
			fmt.Fprintf(&b, "after %v\n%s", h.now.Sub(start), s)
		}
	})
	return b.String()
}

// move: another coordinator takes over.
func scriptMove(h *harness, _ *datadriven.TestData) string { return h.show(h.move()) }

// write-old-record GROUP version=N: a group without members as Kafka wrote it before it kept the time of a state.
func scriptWriteOldRecord(h *harness, d *datadriven.TestData) string {
	r := schema.Encode(&schema.GroupMetadata{Group: d.CmdArgs[0].Key, Value: &kmsg.GroupMetadataValue{ProtocolType: "consumer", Generation: 3, CurrentStateTimestamp: -1}})
	h.log = append(h.log, entry{producer: noProducer, record: r})
	if err := h.m.Replay(noProducer, r); err != nil {
		d.Fatalf(h.t.(*testing.T), "%v", err)
	}
	return ""
}

// show is what a step brought about.
func (h *harness) show(out outcome) string {
	var b strings.Builder
	for _, r := range out.records {
		fmt.Fprintf(&b, "record %s\n", showRecord(r, h.now))
	}
	for _, j := range out.jobs {
		if e, ok := j.(classic.Event); ok {
			fmt.Fprintf(&b, "event %s is %s, generation %d, %d members: %s\n", e.Group, e.State, e.Generation, e.Members, e.Reason)
			continue
		}
		if v, ok := j.(*Verification); ok {
			h.held = append(h.held, v)
			fmt.Fprintf(&b, "verify %s of producer %d, epoch %d, add=%v\n", v.TransactionalID, v.Producer.ID, v.Producer.Epoch, v.Add)
			continue
		}
		fmt.Fprintf(&b, "job %+v\n", j)
	}
	for _, a := range out.answers {
		fmt.Fprintf(&b, "#%d %s\n", a.ticket, showResponse(a.response))
	}
	return b.String()
}

// ask sends a request and shows what comes of it.
func (h *harness) ask(client string, req kmsg.Request) string {
	s := h.show(h.send(client, req))
	if _, ok := h.waiting[h.ticket]; ok {
		s += fmt.Sprintf("#%d waits\n", h.ticket)
	}
	return s
}

func showRecord(r schema.Record, now time.Time) string {
	switch r := r.(type) {
	case *schema.OffsetCommit:
		if r.Value == nil {
			return fmt.Sprintf("offset %s %s-%d gone", r.Group, r.Topic, r.Partition)
		}
		s := fmt.Sprintf("offset %s %s-%d %d epoch=%d", r.Group, r.Topic, r.Partition, r.Value.Offset, r.Value.LeaderEpoch)
		if r.Value.Metadata != "" {
			s += fmt.Sprintf(" %q", r.Value.Metadata)
		}
		if r.Value.ExpireTimestampMs >= 0 {
			s += fmt.Sprintf(" expires in %v", time.UnixMilli(r.Value.ExpireTimestampMs).Sub(now))
		}
		return s
	case *schema.GroupMetadata:
		if r.Value == nil {
			return fmt.Sprintf("group %s gone", r.Group)
		}
		s := fmt.Sprintf("group %s type=%q protocol=%s generation=%d leader=%s", r.Group, r.Value.ProtocolType, text(r.Value.Protocol), r.Value.Generation, text(r.Value.Leader))
		for _, m := range r.Value.Members {
			s += fmt.Sprintf(" %s", m.MemberID)
			if m.InstanceID != nil {
				s += "/" + *m.InstanceID
			}
			s += fmt.Sprintf("[%s]=%s", subscribedTo(m.Subscription), m.Assignment)
		}
		return s
	}
	return fmt.Sprintf("%+v", r)
}
