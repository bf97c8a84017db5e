package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/security"
)

// harness is a controller without its shell: it applies what is decided at once
// and holds every image to the invariants.
type harness struct {
	t        testing.TB
	env      Env
	im       *metadata.Image
	sessions *Sessions
	log      []*metadatapb.Record
}

func newHarness(t testing.TB, seed uint64, static map[string]string) *harness {
	t.Helper()
	values, err := config.FromMap(configkeys.Broker(), static)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, im: metadata.Empty(), env: Env{
		NowMs: 1000, Rand: rand.New(rand.NewPCG(seed, 7)), Static: values, ControllerID: 100,
		Features: metadata.SupportedFeatures(),
	}}
	h.activate(1)
	return h
}

func (h *harness) activate(term int64) string {
	recs := h.commit(Activate(h.im, h.env, term, "test-cluster"))
	h.sessions = NewSessions(h.im, h.env)
	return recs
}

func (h *harness) handle(req kmsg.Request) kmsg.Response { return h.handleFor(security.Anonymous, req) }

func (h *harness) handleFor(p security.Principal, req kmsg.Request) kmsg.Response {
	out := Handle(h.im, h.env, req, p)
	h.commit(out.Records)
	return out.Response
}

// commit applies records, and those by which shards follow them, and describes
// them.
func (h *harness) commit(recs []*metadatapb.Record) string {
	h.t.Helper()
	if len(recs) == 0 {
		return ""
	}
	offset := h.im.Offset() + int64(len(recs))
	next, delta, err := h.im.Apply(offset, recs)
	if err != nil {
		h.t.Fatal(err)
	}
	if shards := PlaceShards(next, delta); len(shards) > 0 {
		recs = append(recs, shards...)
		if next, _, err = h.im.Apply(offset, recs); err != nil {
			h.t.Fatal(err)
		}
	}
	checkShards(h.t, h.im, next)
	checkInvariants(h.t, h.im, next)
	var b strings.Builder
	for _, r := range recs {
		fmt.Fprintf(&b, "  %s\n", describeRecord(next, h.im, r))
	}
	h.log = append(h.log, recs...)
	h.im = next
	return b.String()
}

// checkReplay shows that the records alone give the image.
func (h *harness) checkReplay() {
	h.t.Helper()
	replayed, _, err := metadata.Empty().Apply(h.im.Offset(), h.log)
	if err != nil {
		h.t.Fatal(err)
	}
	if a, b := dumpImage(replayed), dumpImage(h.im); a != b {
		h.t.Fatalf("the records give\n%s\nnot\n%s", a, b)
	}
}

// checkInvariants is what holds of every image, and of each next to its
// predecessor.
func checkInvariants(t testing.TB, old, next *metadata.Image) {
	t.Helper()
	for topic := range next.Topics() {
		before, _ := old.TopicByID(topic.ID)
		for i, p := range topic.Partitions {
			name := fmt.Sprintf("%s-%d %+v", topic.Name, i, *p)
			checkPartition(t, next, name, p)
			if before == nil || i >= len(before.Partitions) {
				continue
			}
			switch was := before.Partitions[i]; {
			case p.LeaderEpoch < was.LeaderEpoch, p.PartitionEpoch < was.PartitionEpoch,
				p.Leader != was.Leader && p.LeaderEpoch == was.LeaderEpoch,
				p != was && p.PartitionEpoch == was.PartitionEpoch,
				p.LeaderEpoch == was.LeaderEpoch && slices.ContainsFunc(was.Replicas, func(id int32) bool { return !p.IsReplica(id) }):
				t.Fatalf("%s follows %+v", name, *was)
			}
		}
	}
	for n := range next.Nodes() {
		if was, ok := old.Node(n.ID); ok && n.Epoch < was.Epoch {
			t.Fatalf("node %+v follows %+v", *n, *was)
		}
	}
	if next.NextProducerID() < old.NextProducerID() {
		t.Fatalf("producer id %d follows %d", next.NextProducerID(), old.NextProducerID())
	}
}

func checkPartition(t testing.TB, im *metadata.Image, name string, p *metadata.Partition) {
	t.Helper()
	elr := im.Features()[metadata.FeatureELRVersion] > 0
	within := func(some []int32) bool {
		return len(slices.Compact(slices.Sorted(slices.Values(some)))) == len(some) &&
			!slices.ContainsFunc(some, func(id int32) bool { return !p.IsReplica(id) })
	}
	switch {
	case len(p.Replicas) == 0 || !within(p.Replicas):
		t.Fatalf("%s: replicas are empty or repeat", name)
	case !within(p.ISR) || !within(p.ELR) || !within(p.LastKnownELR) || !within(p.Offline):
		t.Fatalf("%s: ISR or ELR hold others than replicas, or one twice", name)
	case !within(p.AddingReplicas) || !within(p.RemovingReplicas):
		t.Fatalf("%s: others than replicas come or go", name)
	case p.Reassigning() && p.LeaderRecoveryState == metadata.LeaderRecovered && !slices.ContainsFunc(p.Replicas, func(id int32) bool {
		return !slices.Contains(p.RemovingReplicas, id) && !p.InSync(id)
	}):
		t.Fatalf("%s: the reassignment is not over although all that stay are in sync", name)
	case slices.ContainsFunc(p.ELR, p.InSync):
		t.Fatalf("%s: ELR and ISR overlap", name)
	case p.HasLeader() && !p.InSync(p.Leader):
		t.Fatalf("%s: the leader is not in sync", name)
	case len(p.ISR) == 0 && !elr:
		t.Fatalf("%s: the ISR is empty", name)
	}
	if n, ok := im.Node(p.Leader); p.HasLeader() && (!ok || n.Fenced) {
		t.Fatalf("%s: the leader is fenced or unknown", name)
	}
	active := func(id int32) bool {
		n, ok := im.Node(id)
		return ok && n.Active() && !p.IsOffline(id)
	}
	switch {
	case p.HasLeader() && slices.ContainsFunc(p.ISR, func(id int32) bool { return !active(id) }):
		t.Fatalf("%s: a replica in sync is out of service", name)
	case !p.HasLeader() && (slices.ContainsFunc(p.ISR, active) || len(p.ISR) == 0 && slices.ContainsFunc(p.ELR, active)):
		t.Fatalf("%s: there is no leader although a replica could lead", name)
	}
	for _, id := range p.Replicas {
		if n, ok := im.Node(id); ok && !n.HasRole(metadata.RoleBroker) {
			t.Fatalf("%s: node %d is no broker", name, id)
		}
	}
}

func describeRecord(next, old *metadata.Image, rec *metadatapb.Record) string {
	topic := func(id []byte) string {
		for _, im := range []*metadata.Image{next, old} {
			if t, ok := im.TopicByID(metadata.TopicID(id)); ok {
				return t.Name
			}
		}
		return "?"
	}
	switch r := rec.GetRecord().(type) {
	case *metadatapb.Record_Topic:
		return "topic " + r.Topic.GetName()
	case *metadatapb.Record_RemoveTopic:
		return "remove topic " + topic(r.RemoveTopic.GetTopicId())
	case *metadatapb.Record_Partition:
		p := r.Partition
		return fmt.Sprintf("partition %s-%d leader %d replicas %v isr %v", topic(p.GetTopicId()), p.GetPartitionId(), p.GetLeader(), p.GetReplicas(), p.GetIsr())
	case *metadatapb.Record_PartitionChange:
		return describeChange(topic(r.PartitionChange.GetTopicId()), r.PartitionChange)
	case *metadatapb.Record_CoordinatorShard:
		s := r.CoordinatorShard
		return fmt.Sprintf("shard %s-%d owner %d epoch %d", topic(s.GetTopicId()), s.GetPartitionId(), s.GetOwnerId(), s.GetShardEpoch())
	case *metadatapb.Record_Config:
		value := "(removed)"
		if r.Config.Value != nil {
			value = strconv.Quote(r.Config.GetValue())
		}
		return fmt.Sprintf("config %d %q %s = %s", r.Config.GetResourceType(), r.Config.GetResourceName(), r.Config.GetName(), value)
	case *metadatapb.Record_RegisterBroker:
		b := r.RegisterBroker
		return fmt.Sprintf("register node %d epoch %d roles %v rack %q fenced %v", b.GetBrokerId(), b.GetBrokerEpoch(), b.GetRoles(), b.GetRack(), b.GetFenced())
	case *metadatapb.Record_UnregisterBroker:
		return fmt.Sprintf("unregister node %d", r.UnregisterBroker.GetBrokerId())
	case *metadatapb.Record_BrokerRegistrationChange:
		return describeNodeChange(r.BrokerRegistrationChange)
	case *metadatapb.Record_FeatureLevel:
		return fmt.Sprintf("feature %s = %d", r.FeatureLevel.GetName(), r.FeatureLevel.GetFeatureLevel())
	case *metadatapb.Record_ProducerIds:
		return fmt.Sprintf("producer ids up to %d to node %d", r.ProducerIds.GetNextProducerId(), r.ProducerIds.GetBrokerId())
	case *metadatapb.Record_Cluster:
		return "cluster " + r.Cluster.GetClusterId()
	case *metadatapb.Record_LeaderChange:
		return fmt.Sprintf("controller %d term %d", r.LeaderChange.GetLeaderId(), r.LeaderChange.GetLeaderEpoch())
	}
	return rec.String()
}

func describeChange(topic string, c *metadatapb.PartitionChangeRecord) string {
	s := fmt.Sprintf("change %s-%d", topic, c.GetPartitionId())
	if c.Leader != nil {
		s += fmt.Sprintf(" leader %d", c.GetLeader())
	}
	if c.LeaderRecoveryState != nil {
		s += fmt.Sprintf(" recovery %d", c.GetLeaderRecoveryState())
	}
	for _, f := range []struct {
		name string
		list *metadatapb.Replicas
	}{{"isr", c.Isr}, {"elr", c.EligibleLeaderReplicas}, {"last known elr", c.LastKnownElr}, {"replicas", c.Replicas}, {"adding", c.AddingReplicas}, {"removing", c.RemovingReplicas}, {"offline", c.OfflineReplicas}} {
		if f.list != nil {
			s += fmt.Sprintf(" %s %v", f.name, f.list.GetIds())
		}
	}
	return s
}

func describeNodeChange(c *metadatapb.BrokerRegistrationChangeRecord) string {
	s := fmt.Sprintf("node %d", c.GetBrokerId())
	if c.Fenced != nil {
		s += fmt.Sprintf(" fenced %v", c.GetFenced())
	}
	if c.InControlledShutdown != nil {
		s += fmt.Sprintf(" in controlled shutdown %v", c.GetInControlledShutdown())
	}
	return s
}

// dumpImage is an image as text: nodes, topics, configs, features.
func dumpImage(im *metadata.Image) string {
	var b strings.Builder
	for n := range im.Nodes() {
		fmt.Fprintf(&b, "node %d epoch %d roles %v rack %q fenced %v leaving %v\n", n.ID, n.Epoch, n.Roles, n.Rack, n.Fenced, n.InControlledShutdown)
	}
	for t := range im.Topics() {
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, "%s-%d leader %d epoch %d/%d replicas %v isr %v", t.Name, p.ID, p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.Replicas, p.ISR)
			if len(p.ELR)+len(p.LastKnownELR) > 0 || p.LeaderRecoveryState != 0 {
				fmt.Fprintf(&b, " elr %v last known %v recovery %d", p.ELR, p.LastKnownELR, p.LeaderRecoveryState)
			}
			if len(p.Offline) > 0 {
				fmt.Fprintf(&b, " offline %v", p.Offline)
			}
			if p.Reassigning() {
				fmt.Fprintf(&b, " adding %v removing %v", p.AddingReplicas, p.RemovingReplicas)
			}
			b.WriteByte('\n')
		}
		for i, s := range im.Shards(t.Name) {
			if s.Epoch > 0 {
				fmt.Fprintf(&b, "shard %s-%d owner %d epoch %d\n", t.Name, i, s.Owner, s.Epoch)
			}
		}
	}
	for _, t := range []metadata.ConfigResourceType{2, 4, 8, 16, 32} {
		for name := range im.ConfigResources(t) {
			values := im.Config(metadata.Resource{Type: t, Name: name})
			for _, key := range slices.Sorted(maps.Keys(values)) {
				fmt.Fprintf(&b, "config %d %q %s = %q\n", t, name, key, values[key])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(im.Features())) {
		fmt.Fprintf(&b, "feature %s = %d\n", name, im.Features()[name])
	}
	fmt.Fprintf(&b, "next producer id %d\n", im.NextProducerID())
	return b.String()
}

// ownWords begin the messages about configs that are this package's.
var ownWords = []string{"Can't", "Cannot set", "Default", "Duplicate", "Each", "Error due", "Node id", "Null", "Removing", "Subscription", "Unexpected", "Unknown operations", "Unknown resource"}

// configVerdict is a verdict without what package configkeys says of a value,
// which its own tests are about.
func configVerdict(code int16, message *string) string {
	if code != 0 && message != nil && !slices.ContainsFunc(ownWords, func(w string) bool { return strings.HasPrefix(*message, w) }) &&
		(code == kerr.InvalidConfig.Code || code == kerr.InvalidRequest.Code) && !strings.Contains(*message, " operation ") {
		message = kmsg.StringPtr("(a fault of the values)")
	}
	return verdict(code, message)
}

// verdict is an error code and message as a script shows it.
func verdict(code int16, message *string) string {
	s := "ok"
	if code != 0 {
		s = kerr.TypedErrorForCode(code).Message
	}
	if message != nil {
		s += ": " + *message
	}
	return s
}

func errorVerdict(err error) string {
	code, message := answer(err)
	return verdict(code, message)
}
