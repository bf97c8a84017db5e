package shard

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
)

var noProducer = coordinator.NoProducer

// committed is an offset of a script: topic-partition=offset[@epoch][/text].
type committed struct {
	topic     string
	partition int32
	offset    int64
	epoch     int32
	text      *string
}

// offsetsOf reads the lines of a command.
func offsetsOf(d *datadriven.TestData) []committed {
	var list []committed
	for _, line := range strings.Fields(d.Input) {
		at, rest, _ := strings.Cut(line, "=")
		topic, partition := partitionOf(at)
		c := committed{topic: topic, partition: partition, epoch: -1}
		value, label, labelled := strings.Cut(rest, "/")
		if labelled {
			c.text = &label
		}
		value, epoch, hasEpoch := strings.Cut(value, "@")
		c.offset = number(value)
		if hasEpoch {
			c.epoch = int32(number(epoch))
		}
		list = append(list, c)
	}
	return list
}

func partitionOf(word string) (string, int32) {
	i := strings.LastIndex(word, "-")
	return word[:i], int32(number(word[i+1:]))
}

func number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// topicID is a topic's id. A name like #3 is the id of the third topic ever.
func (h *harness) topicID(name string) metadata.TopicID {
	if n, ok := strings.CutPrefix(name, "#"); ok {
		return metadata.TopicID{15: byte(number(n))}
	}
	if t, ok := h.im.Topic(name); ok {
		return t.ID
	}
	return metadata.TopicID{0: 0xff}
}

// commit GROUP [id=MEMBER] [generation=-1] [instance=i] [v=9] [retention=1h]: topic-partition=offset[@epoch][/text]…
func scriptCommit(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = int16(argInt(d, "v", 9)), d.CmdArgs[0].Key
	req.MemberID, req.InstanceID, req.Generation = argText(d, "id", ""), argPointer(d, "instance"), int32(argInt(d, "generation", -1))
	req.RetentionTimeMillis = argInt(d, "retention", -1)
	if d.HasArg("empty-group") {
		req.Group = ""
	}
	for _, c := range offsetsOf(d) {
		t := kmsg.NewOffsetCommitRequestTopic()
		if t.Topic = c.topic; req.Version >= 10 {
			t.Topic, t.TopicID = "", h.topicID(c.topic)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = c.partition, c.offset, c.epoch, c.text
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return h.ask("c", req)
}

// txn-commit GROUP producer=N [epoch=0] [id=] [generation=-1] [v=5]: topic-partition=offset…
func scriptTxnCommit(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version, req.Group, req.ProducerID = int16(argInt(d, "v", 5)), d.CmdArgs[0].Key, argInt(d, "producer", 1)
	req.TransactionalID, req.ProducerEpoch = "t", int16(argInt(d, "epoch", 0))
	req.MemberID, req.InstanceID, req.Generation = argText(d, "id", ""), argPointer(d, "instance"), int32(argInt(d, "generation", -1))
	for _, c := range offsetsOf(d) {
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic = c.topic
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = c.partition, c.offset, c.epoch, c.text
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return h.ask("c", req)
}

// end-transaction producer=N [epoch=0] [coordinator=0] [version=1] [abort]
func scriptEndTransaction(h *harness, d *datadriven.TestData) string {
	e := record.Ending{ProducerID: argInt(d, "producer", 1), ProducerEpoch: int16(argInt(d, "epoch", 0)), TxnVersion: int8(argInt(d, "version", 1))}
	e.CoordinatorEpoch = int32(argInt(d, "coordinator", 0))
	if e.Type = record.Commit; d.HasArg("abort") {
		e.Type = record.Abort
	}
	if err := h.end(e); err != nil {
		return groupapi.Code(err).Message + "\n"
	}
	return ""
}

// verify [hold] [code=CODE]: what coordinators of transactions say from now on, and to what they have been asked; or that they say
// nothing for now.
func scriptVerify(h *harness, d *datadriven.TestData) string {
	if d.HasArg("hold") {
		h.verify = nil
		return ""
	}
	var code error
	if name := argText(d, "code", ""); name != "" {
		for n := range int16(200) {
			if err := kerr.TypedErrorForCode(n); err != nil && err.Message == name {
				code = err
			}
		}
	}
	h.verify = func(*Verification) error { return code }
	var shown string
	held := h.held
	h.held = nil
	for _, v := range held {
		shown += h.show(h.take(h.m.Verified(h.now, v, code)))
	}
	return shown
}

// fetch GROUP [v=9] [stable]: topic-partition…; nothing for all.
func scriptFetch(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.RequireStable = int16(argInt(d, "v", 9)), d.HasArg("stable")
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, req.Group = d.CmdArgs[0].Key, d.CmdArgs[0].Key
	if d.HasArg("empty-group") {
		g.Group, req.Group = "", ""
	}
	for _, word := range strings.Fields(d.Input) {
		name, index := partitionOf(word)
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		if t.Topic = name; req.Version >= 10 {
			t.Topic, t.TopicID = "", h.topicID(name)
		}
		t.Partitions = []int32{index}
		g.Topics = append(g.Topics, t)
		one := kmsg.NewOffsetFetchRequestTopic()
		one.Topic, one.Partitions = name, []int32{index}
		req.Topics = append(req.Topics, one)
	}
	req.Groups = append(req.Groups, g)
	return h.ask("c", req)
}

// delete-offsets GROUP: topic-partition…
func scriptDeleteOffsets(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = d.CmdArgs[0].Key
	for _, word := range strings.Fields(d.Input) {
		name, index := partitionOf(word)
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic, t.Partitions = name, []kmsg.OffsetDeleteRequestTopicPartition{{Partition: index}}
		req.Topics = append(req.Topics, t)
	}
	return h.ask("c", req)
}

// delete-groups GROUP…
func scriptDeleteGroups(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrDeleteGroupsRequest()
	for _, a := range d.CmdArgs {
		req.Groups = append(req.Groups, a.Key)
	}
	return h.ask("c", req)
}

func showOffsets(response any) string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch r := response.(type) {
	case *kmsg.OffsetCommitResponse:
		add("commit")
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add("%s-%d:%s", topicName(t.Topic, t.TopicID), p.Partition, codeName(p.ErrorCode))
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		add("txn-commit")
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add("%s-%d:%s", topicName(t.Topic, t.TopicID), p.Partition, codeName(p.ErrorCode))
			}
		}
	case *kmsg.OffsetFetchResponse:
		return showFetched(r)
	case *kmsg.OffsetDeleteResponse:
		add("delete-offsets %s", codeName(r.ErrorCode))
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add("%s-%d:%s", t.Topic, p.Partition, codeName(p.ErrorCode))
			}
		}
	case *kmsg.DeleteGroupsResponse:
		add("delete-groups")
		for _, g := range r.Groups {
			add("%s:%s", g.Group, codeName(g.ErrorCode))
		}
	default:
		add("%+v", response)
	}
	return strings.Join(words, " ")
}

func topicName(name string, id metadata.TopicID) string {
	if name == "" {
		return fmt.Sprintf("#%d", id[15])
	}
	return name
}

func showFetched(r *kmsg.OffsetFetchResponse) string {
	words := []string{"fetch " + codeName(r.ErrorCode)}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			words = append(words, fmt.Sprintf("%s-%d:%s:%d@%d/%s", t.Topic, p.Partition, codeName(p.ErrorCode), p.Offset, p.LeaderEpoch, text(p.Metadata)))
		}
	}
	for _, g := range r.Groups {
		words = append(words, fmt.Sprintf("%q %s", g.Group, codeName(g.ErrorCode)))
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				words = append(words, fmt.Sprintf("%s-%d:%s:%d@%d/%s", topicName(t.Topic, t.TopicID), p.Partition, codeName(p.ErrorCode), p.Offset, p.LeaderEpoch, text(p.Metadata)))
			}
		}
	}
	return strings.Join(words, " ")
}
