package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/security"
)

// TestRandomClusters drives clusters of a few nodes through random events. The
// harness holds every image to the invariants; in the end the records alone,
// and a snapshot of the image, give the image again, and when every node is
// back every partition that did not lose its replicas has a leader.
func TestRandomClusters(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := &mayhem{harness: newHarness(t, seed, map[string]string{"num.partitions": "2"}), r: rand.New(rand.NewPCG(seed, 1))}
			for range 150 {
				m.step()
			}
			m.heal()
			m.checkReplay()
			snapshot, _, err := metadata.Empty().Apply(m.im.Offset(), slices.Collect(m.im.Records()))
			if err != nil {
				t.Fatal(err)
			}
			if a, b := dumpImage(snapshot), dumpImage(m.im); a != b {
				t.Fatalf("the snapshot gives\n%s\nnot\n%s", a, b)
			}
		})
	}
}

type mayhem struct {
	*harness
	r     *rand.Rand
	runs  [6]byte
	term  int64
	names int
}

func (m *mayhem) node() int32 { return int32(m.r.IntN(5)) }

func (m *mayhem) step() {
	switch m.r.IntN(18) {
	case 0, 1:
		m.start(m.node(), m.r.IntN(2) == 0)
	case 2, 3, 4, 5:
		m.beat(m.node(), m.r.IntN(8) == 0, m.r.IntN(8) == 0)
	case 6:
		m.env.NowMs += int64(m.r.IntN(6000))
		for {
			_, recs, ok := m.sessions.Expire(m.im, m.env)
			if !ok {
				break
			}
			m.commit(recs)
		}
	case 7:
		m.createTopic()
		m.createShardTopic()
	case 8, 9, 10:
		m.alterISR()
	case 11:
		m.adminChange()
	case 12:
		m.growOrDelete()
	case 13:
		if m.r.IntN(4) == 0 {
			m.term++
			m.activate(m.term + 1)
		}
	case 14, 15:
		m.reassign()
	case 16:
		m.electLeaders()
	case 17:
		m.failDirectory()
	}
}

func (m *mayhem) reassign() {
	t := m.someTopic()
	if t == nil {
		return
	}
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	wanted := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	wanted.Topic = t.Name
	for _, p := range t.Partitions {
		a := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		a.Partition = p.ID
		if m.r.IntN(4) > 0 {
			for _, id := range m.r.Perm(4)[:m.r.IntN(3)+1] {
				a.Replicas = append(a.Replicas, int32(id))
			}
		}
		wanted.Partitions = append(wanted.Partitions, a)
	}
	req.Topics = append(req.Topics, wanted)
	m.handle(req)
}

func (m *mayhem) electLeaders() {
	switch m.r.IntN(3) {
	case 0:
		m.commit(BalanceLeaders(m.im, m.env))
		if recs := BalanceLeaders(m.im, m.env); recs != nil {
			m.t.Fatalf("leaders are out of balance after they were balanced: %v", recs)
		}
	case 1:
		m.commit(ElectUnclean(m.im, m.env))
		if recs := ElectUnclean(m.im, m.env); recs != nil {
			m.t.Fatalf("leaders are missing after they were elected: %v", recs)
		}
	case 2:
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version, req.ElectionType = 2, int8(m.r.IntN(2))
		m.handle(req)
	}
}

func (m *mayhem) start(id int32, clean bool) {
	m.runs[id]++
	r := Registration{
		NodeID: id, Incarnation: [16]byte{byte(id), m.runs[id]}, Rack: []string{"", "a", "b"}[id%3],
		Roles: []string{metadata.RoleBroker}, Listeners: []metadata.Listener{{Name: "L"}},
		Features: metadata.SupportedFeatures(), PreviousEpoch: -1,
	}
	switch id {
	case 2, 3:
		r.Roles = append(r.Roles, metadata.RoleGroupCoord, metadata.RoleTxnCoord)
	case 4:
		r.Roles = []string{metadata.RoleGroupCoord}
	}
	if n, ok := m.im.Node(id); ok && clean {
		r.PreviousEpoch = n.Epoch
	}
	if _, recs, err := m.sessions.Register(m.im, m.env, r); err == nil {
		m.commit(recs)
	}
}

func (m *mayhem) beat(id int32, fence, shutdown bool) {
	n, ok := m.im.Node(id)
	if !ok {
		return
	}
	_, recs, err := m.sessions.Heartbeat(m.im, m.env, Beat{
		NodeID: id, Epoch: n.Epoch, Offset: m.im.Offset() - int64(m.r.IntN(3)), WantFence: fence, WantShutdown: shutdown,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.commit(recs)
}

func (m *mayhem) createTopic() {
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	m.names++
	t.Topic, t.NumPartitions, t.ReplicationFactor = fmt.Sprint("t", m.names), int32(m.r.IntN(4)+1), int16(m.r.IntN(3)+1)
	for _, c := range [][2]string{{"min.insync.replicas", "2"}, {"unclean.leader.election.enable", "true"}} {
		if m.r.IntN(3) == 0 {
			k := kmsg.NewCreateTopicsRequestTopicConfig()
			k.Name, k.Value = c[0], proto.String(c[1])
			t.Configs = append(t.Configs, k)
		}
	}
	req.Topics = append(req.Topics, t)
	m.handle(req)
}

func (m *mayhem) createShardTopic() {
	req := newTopicRequest(shardTopics[m.r.IntN(len(shardTopics))].topic, int32(m.r.IntN(12)+1))
	m.handleFor(security.Node(1), req)
}

func (m *mayhem) someTopic() *metadata.Topic {
	if m.im.TopicCount() == 0 {
		return nil
	}
	topics := slices.Collect(m.im.Topics())
	return topics[m.r.IntN(len(topics))]
}

// alterISR has a leader ask for some of its replicas to be in sync.
func (m *mayhem) alterISR() {
	t := m.someTopic()
	if t == nil {
		return
	}
	p := t.Partitions[m.r.IntN(len(t.Partitions))]
	n, ok := m.im.Node(p.Leader)
	if !ok {
		return
	}
	w := PartitionAlteration{Topic: t.ID, Partition: p.ID, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
	for _, id := range p.Replicas {
		if id == p.Leader || m.r.IntN(3) > 0 {
			w.ISR = append(w.ISR, ReplicaEpoch{NodeID: id, Epoch: -1})
		}
	}
	_, recs, err := AlterPartitions(m.im, m.env, n.ID, n.Epoch, []PartitionAlteration{w})
	if err != nil {
		m.t.Fatal(err)
	}
	m.commit(recs)
}

func (m *mayhem) adminChange() {
	switch m.r.IntN(4) {
	case 0:
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = m.node()
		m.handle(req)
	case 1:
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.Version = 2
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel = metadata.FeatureELRVersion, int16(m.r.IntN(2))
		u.UpgradeType = 2 - int8(u.MaxVersionLevel)
		req.FeatureUpdates = append(req.FeatureUpdates, u)
		m.handle(req)
	default:
		n := m.node()
		for id := range m.im.Nodes() {
			n = id.ID
		}
		if node, ok := m.im.Node(n); ok {
			_, _, recs, err := AllocateProducerIDs(m.im, n, node.Epoch)
			if err != nil {
				m.t.Fatal(err)
			}
			m.commit(recs)
		}
	}
}

func (m *mayhem) growOrDelete() {
	t := m.someTopic()
	if t == nil {
		return
	}
	if m.r.IntN(3) == 0 {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version = 5
		req.TopicNames = []string{t.Name}
		m.handle(req)
		return
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	g := kmsg.NewCreatePartitionsRequestTopic()
	g.Topic, g.Count = t.Name, int32(len(t.Partitions)+1)
	req.Topics = append(req.Topics, g)
	m.handle(req)
}

// heal brings every node back in good order.
func (m *mayhem) heal() {
	for id := range int32(5) {
		if n, ok := m.im.Node(id); !ok || n.InControlledShutdown || m.hasFailed(id) {
			m.env.NowMs += 60_000
			for {
				_, recs, ok := m.sessions.Expire(m.im, m.env)
				if !ok {
					break
				}
				m.commit(recs)
			}
			m.start(id, true)
		}
	}
	for range 2 {
		for id := range int32(5) {
			n, _ := m.im.Node(id)
			_, recs, err := m.sessions.Heartbeat(m.im, m.env, Beat{NodeID: id, Epoch: n.Epoch, Offset: m.im.Offset()})
			if err != nil {
				m.t.Fatal(err)
			}
			m.commit(recs)
		}
	}
	for t := range m.im.Topics() {
		for _, p := range t.Partitions {
			if !p.HasLeader() {
				m.t.Errorf("%s-%d has no leader although all nodes are back: %+v", t.Name, p.ID, *p)
			}
		}
	}
}
