package cluster

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/security"
)

var anyone = security.Anonymous

var resourceTypes = map[string]kmsg.ConfigResourceType{
	"topic": 2, "broker": 4, "logger": 8, "metrics": 16, "group": 32,
	"type0": 0, "type3": 3, "type99": 99,
}

// resourceOf reads "topic/NAME".
func resourceOf(word string) (kmsg.ConfigResourceType, string) {
	kind, name, _ := strings.Cut(word, "/")
	t, ok := resourceTypes[kind]
	if !ok {
		panic("no resource type " + kind)
	}
	return t, unquote(name)
}

// alter [validate-only], a resource a line: TYPE/NAME [key=value]…
func scriptAlter(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Version, req.ValidateOnly = 2, d.HasArg("validate-only")
	for _, words := range lines(d) {
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = resourceOf(words[0])
		for _, w := range words[1:] {
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			key, value, _ := strings.Cut(w, "=")
			c.Name, c.Value = key, nullable(value)
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
	}
	out := Handle(h.im, h.env, req, anyone)
	var b strings.Builder
	for _, r := range out.Response.(*kmsg.AlterConfigsResponse).Resources {
		fmt.Fprintf(&b, "%d %q: %s\n", r.ResourceType, r.ResourceName, configVerdict(r.ErrorCode, r.ErrorMessage))
	}
	return b.String() + h.commit(out.Records)
}

// incremental-alter [validate-only], a resource a line: TYPE/NAME
// [key=value | key+=value | key-=value | -key | op9:key=value]…; \s is a blank.
func scriptIncrementalAlter(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = 1, d.HasArg("validate-only")
	for _, words := range lines(d) {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = resourceOf(words[0])
		for _, w := range words[1:] {
			r.Configs = append(r.Configs, operationOf(strings.ReplaceAll(w, `\s`, " ")))
		}
		req.Resources = append(req.Resources, r)
	}
	out := Handle(h.im, h.env, req, anyone)
	var b strings.Builder
	for _, r := range out.Response.(*kmsg.IncrementalAlterConfigsResponse).Resources {
		fmt.Fprintf(&b, "%d %q: %s\n", r.ResourceType, r.ResourceName, configVerdict(r.ErrorCode, r.ErrorMessage))
	}
	return b.String() + h.commit(out.Records)
}

func operationOf(word string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	if key, ok := strings.CutPrefix(word, "-"); ok {
		c.Name, c.Op = key, kmsg.IncrementalAlterConfigOpDelete
		return c
	}
	if rest, ok := strings.CutPrefix(word, "op9:"); ok {
		word, c.Op = rest, 9
	}
	key, value, _ := strings.Cut(word, "=")
	c.Name, c.Value = key, nullable(value)
	if key, ok := strings.CutSuffix(key, "+"); ok {
		c.Name, c.Op = key, kmsg.IncrementalAlterConfigOpAppend
	} else if key, ok := strings.CutSuffix(key, "-"); ok {
		c.Name, c.Op = key, kmsg.IncrementalAlterConfigOpSubtract
	}
	return c
}

// update-features [version=V] [validate-only], a feature a line: NAME LEVEL [upgrade|safe|unsafe|kind9].
func scriptUpdateFeatures(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version, req.ValidateOnly = int16(argInt(d, "version", 2)), d.HasArg("validate-only")
	kinds := map[string]int8{"upgrade": 1, "safe": 2, "unsafe": 3, "kind0": 0, "kind9": 9}
	for _, words := range lines(d) {
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = unquote(words[0]), int16(number(words[1])), 1
		if len(words) > 2 {
			u.UpgradeType = kinds[words[2]]
		}
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	out := Handle(h.im, h.env, req, anyone)
	resp := out.Response.(*kmsg.UpdateFeaturesResponse)
	s := verdict(resp.ErrorCode, resp.ErrorMessage) + "\n"
	for _, r := range resp.Results {
		s += fmt.Sprintf("%s: %s\n", r.Feature, verdict(r.ErrorCode, r.ErrorMessage))
	}
	return s + h.commit(out.Records)
}

func scriptUnregister(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = int32(argInt(d, "node", 1))
	out := Handle(h.im, h.env, req, anyone)
	resp := out.Response.(*kmsg.UnregisterBrokerResponse)
	return verdict(resp.ErrorCode, resp.ErrorMessage) + "\n" + h.commit(out.Records)
}

// producer-ids node=N [epoch=E]
func scriptProducerIDs(h *harness, d *datadriven.TestData) string {
	id := int32(argInt(d, "node", 1))
	epoch := int64(-1)
	if n, ok := h.im.Node(id); ok {
		epoch = n.Epoch
	}
	first, count, recs, err := AllocateProducerIDs(h.im, id, argInt(d, "epoch", epoch))
	if err != nil {
		return errorVerdict(err) + "\n"
	}
	return fmt.Sprintf("%d ids from %d\n", count, first) + h.commit(recs)
}

// alter-partition node=N [epoch=E], a partition a line:
// TOPIC PARTITION isr=1,2 [leader-epoch=N] [partition-epoch=N] [recovering] [replica-epoch=N]; epochs are the image's unless given.
func scriptAlterPartition(h *harness, d *datadriven.TestData) string {
	id := int32(argInt(d, "node", 1))
	n, _ := h.im.Node(id)
	var wishes []PartitionAlteration
	for _, words := range lines(d) {
		w := PartitionAlteration{Topic: metadata.TopicID{42}, Partition: int32(number(words[1]))}
		if t, ok := h.im.Topic(words[0]); ok {
			w.Topic = t.ID
		}
		if p, ok := h.im.Partition(w.Topic, w.Partition); ok {
			w.LeaderEpoch, w.PartitionEpoch = p.LeaderEpoch, p.PartitionEpoch
		}
		replicaEpoch := int64(-1)
		for _, word := range words[2:] {
			switch key, value, _ := strings.Cut(word, "="); key {
			case "isr":
				for _, r := range numbers(value) {
					w.ISR = append(w.ISR, ReplicaEpoch{NodeID: r})
				}
			case "leader-epoch":
				w.LeaderEpoch += int32(number(value))
			case "partition-epoch":
				w.PartitionEpoch += int32(number(value))
			case "replica-epoch":
				replicaEpoch = int64(number(value))
			case "recovering":
				w.LeaderRecoveryState = metadata.LeaderRecovering
			}
		}
		for i := range w.ISR {
			w.ISR[i].Epoch = replicaEpoch
		}
		wishes = append(wishes, w)
	}
	answers, recs, err := AlterPartitions(h.im, h.env, id, argInt(d, "epoch", n.Epoch), wishes)
	if err != nil {
		return errorVerdict(err) + "\n"
	}
	var b strings.Builder
	for _, a := range answers {
		b.WriteString(verdict(a.ErrorCode, nil))
		if a.Partition != nil {
			fmt.Fprintf(&b, " leader %d epoch %d/%d isr %v", a.Partition.Leader, a.Partition.LeaderEpoch, a.Partition.PartitionEpoch, a.Partition.ISR)
		}
		b.WriteByte('\n')
	}
	return b.String() + h.commit(recs)
}

func scriptDescribeQuorum(h *harness, d *datadriven.TestData) string {
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = 2
	for _, words := range lines(d) {
		t := kmsg.NewDescribeQuorumRequestTopic()
		t.Topic = words[0]
		p := kmsg.NewDescribeQuorumRequestTopicPartition()
		p.Partition = int32(number(words[1]))
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	env := h.env
	env.Quorum = Quorum{
		LeaderID: 100, LeaderEpoch: 3, HighWatermark: 17,
		Voters:    []QuorumReplica{{ID: 100, LogEndOffset: 17, LastFetchMs: 5, LastCaughtUpMs: 5, Listeners: []metadata.Listener{{Name: "C", Host: "h", Port: 1}}}},
		Observers: []QuorumReplica{{ID: 1, LogEndOffset: 16, LastFetchMs: -1, LastCaughtUpMs: -1}},
	}
	resp := Handle(h.im, env, req, anyone).Response.(*kmsg.DescribeQuorumResponse)
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d nodes\n", verdict(resp.ErrorCode, resp.ErrorMessage), len(resp.Nodes))
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, "%s-%d: %s leader %d epoch %d high watermark %d", t.Topic, p.Partition, verdict(p.ErrorCode, p.ErrorMessage), p.LeaderID, p.LeaderEpoch, p.HighWatermark)
			for _, v := range p.CurrentVoters {
				fmt.Fprintf(&b, " voter %d@%d", v.ReplicaID, v.LogEndOffset)
			}
			for _, o := range p.Observers {
				fmt.Fprintf(&b, " observer %d@%d", o.ReplicaID, o.LogEndOffset)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}
