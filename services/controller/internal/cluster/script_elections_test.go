package cluster

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// elect [type=N] [unclean] [all], partitions a line: TOPIC PARTITION…
func scriptElect(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.ElectionType = 2, int8(argInt(d, "type", electPreferred))
	if d.HasArg("unclean") {
		req.ElectionType = electUnclean
	}
	if !d.HasArg("all") {
		req.Topics = []kmsg.ElectLeadersRequestTopic{}
	}
	for _, words := range lines(d) {
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = words[0], numbers(words[1])
		req.Topics = append(req.Topics, t)
	}
	out := Handle(h.im, h.env, req, anyone)
	resp := out.Response.(*kmsg.ElectLeadersResponse)
	var b strings.Builder
	if resp.ErrorCode != 0 {
		fmt.Fprintln(&b, verdict(resp.ErrorCode, nil))
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, "%s-%d: %s\n", t.Topic, p.Partition, verdict(p.ErrorCode, p.ErrorMessage))
		}
	}
	return b.String() + h.uncleanly(out.Records) + h.commit(out.Records)
}

// uncleanly describes the unclean elections among recs.
func (h *harness) uncleanly(recs []*metadatapb.Record) string {
	var b strings.Builder
	for _, e := range UncleanElections(h.im, recs) {
		fmt.Fprintf(&b, "unclean: %s-%d leader %d\n", e.Topic, e.Partition, e.Leader)
	}
	return b.String()
}

// balance: one round of leader balancing.
func scriptBalance(h *harness, _ *datadriven.TestData) string {
	return h.commit(BalanceLeaders(h.im, h.env))
}

// elect-unclean: one round for partitions without leader.
func scriptElectUnclean(h *harness, _ *datadriven.TestData) string {
	recs := ElectUnclean(h.im, h.env)
	return h.uncleanly(recs) + h.commit(recs)
}

// reassign [version=V] [same-factor], a partition a line: TOPIC PARTITION 1,2,3 | none | cancel
func scriptReassign(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.AllowReplicationFactorChange = int16(argInt(d, "version", 1)), !d.HasArg("same-factor")
	for _, words := range lines(d) {
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		t.Topic, p.Partition = words[0], int32(number(words[1]))
		switch words[2] {
		case "none":
			p.Replicas = []int32{}
		case "cancel":
		default:
			p.Replicas = numbers(words[2])
		}
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	out := Handle(h.im, h.env, req, anyone)
	var b strings.Builder
	for _, t := range out.Response.(*kmsg.AlterPartitionAssignmentsResponse).Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, "%s-%d: %s\n", t.Topic, p.Partition, verdict(p.ErrorCode, p.ErrorMessage))
		}
	}
	return b.String() + h.uncleanly(out.Records) + h.commit(out.Records)
}

// reassignments [all], partitions a line: TOPIC PARTITION…
func scriptReassignments(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	if !d.HasArg("all") {
		req.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{}
	}
	for _, words := range lines(d) {
		t := kmsg.NewListPartitionReassignmentsRequestTopic()
		t.Topic, t.Partitions = words[0], numbers(words[1])
		req.Topics = append(req.Topics, t)
	}
	var b strings.Builder
	for _, t := range Handle(h.im, h.env, req, anyone).Response.(*kmsg.ListPartitionReassignmentsResponse).Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, "%s-%d: replicas %v adding %v removing %v\n", t.Topic, p.Partition, p.Replicas, p.AddingReplicas, p.RemovingReplicas)
		}
	}
	return b.String()
}
