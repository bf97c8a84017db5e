package controller

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node"
	"github.com/cauce-stream/cauce/services/controller/internal/cluster"
)

// setISR has a leader ask for other in-sync replicas of the one partition of a topic.
func setISR(t *testing.T, leader *node.Node, topic string, isr ...int32) {
	t.Helper()
	top, _ := leader.Image().Topic(topic)
	p := top.Partitions[0]
	wish := &controlpb.AlterPartitionRequest_Partition{LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
	for _, id := range isr {
		wish.Isr = append(wish.Isr, &controlpb.AlterPartitionRequest_Replica{NodeId: id, NodeEpoch: -1})
	}
	answer, err := leader.AlterPartitions(t.Context(), []*controlpb.AlterPartitionRequest_Topic{{
		TopicId: top.ID[:], Partitions: []*controlpb.AlterPartitionRequest_Partition{wish},
	}})
	if err != nil || answer[0].GetPartitions()[0].GetErrorCode() != 0 {
		t.Fatalf("in-sync replicas %v: %v, %v", isr, answer, err)
	}
	synctest.Wait()
}

func leaderOf(s *Service, topic string) int32 {
	synctest.Wait()
	t, _ := s.Image().Topic(topic)
	return t.Partitions[0].Leader
}

// TestLeadersAreElectedUnasked has a partition lose its preferred leader, which leads again when it is back in sync, and
// then lose all in-sync replicas, when it gets another leader as soon as its config allows that.
func TestLeadersAreElectedUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]string{"leader.imbalance.check.interval.seconds": "60"})
		core, lines := observer.New(zapcore.WarnLevel)
		s, err := New(Config{ID: 100, Dir: w.dir, Static: w.static}, Deps{Bus: w.connect("controller"), Log: zap.New(core)})
		if err != nil {
			t.Fatal(err)
		}
		controller := start(t, s.Run)
		n1, first := w.node(1)
		n2, second := w.node(2)
		<-n1.Ready()
		<-n2.Ready()
		req := createTopics(-1, "orders")
		req.Topics[0].ReplicationFactor = -1
		assigned := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		assigned.Replicas = []int32{1, 2}
		req.Topics[0].ReplicaAssignment = append(req.Topics[0].ReplicaAssignment, assigned)
		if resp := forward[*kmsg.CreateTopicsResponse](t, n2, req); resp.Topics[0].ErrorCode != 0 {
			t.Fatalf("%+v", resp.Topics[0])
		}
		time.Sleep(2 * time.Minute) // the chore has run in vain
		first.stop()
		n1, first = w.node(1)
		<-n1.Ready()
		if got := leaderOf(s, "orders"); got != 2 {
			t.Fatalf("leader %d", got)
		}
		setISR(t, n2, "orders", 2, 1)
		time.Sleep(time.Minute)
		if got := leaderOf(s, "orders"); got != 1 {
			t.Errorf("leader %d a minute after the preferred one came back", got)
		}

		setISR(t, n1, "orders", 1)
		first.stop()
		if got := leaderOf(s, "orders"); got != metadata.NoLeader || lines.Len() > 0 {
			t.Fatalf("leader %d, logged %v", got, lines.All())
		}
		allow := kmsg.NewPtrIncrementalAlterConfigsRequest()
		resource, key := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		key.Name, key.Value = "unclean.leader.election.enable", kmsg.StringPtr("true")
		resource.ResourceType, resource.ResourceName, resource.Configs = kmsg.ConfigResourceTypeTopic, "orders", append(resource.Configs, key)
		allow.Resources = append(allow.Resources, resource)
		forward[*kmsg.IncrementalAlterConfigsResponse](t, n2, allow)
		time.Sleep(time.Second)
		if got := leaderOf(s, "orders"); got != 2 {
			t.Errorf("leader %d a second after unclean elections were allowed", got)
		}
		if n := testutil.ToFloat64(s.metrics.unclean); n != 1 {
			t.Errorf("%v unclean elections counted", n)
		}
		logged := lines.FilterMessageSnippet("unclean election").All()
		if len(logged) != 1 || !strings.Contains(logged[0].ContextMap()["leaders"].([]any)[0].(string), "orders-0 to node 2") {
			t.Errorf("logged: %v", lines.All())
		}
		second.stop()
		controller.stop()
	})
}

// TestChoresThatAreNeverDue has intervals as long as their keys allow: what is due then is due in centuries, and not at once and without end.
func TestChoresThatAreNeverDue(t *testing.T) {
	w := newWorld(t, map[string]string{"leader.imbalance.check.interval.seconds": "9223372036854775807", "unclean.leader.election.interval.ms": "9223372036854775807"})
	s, err := New(Config{ID: 100, Dir: w.dir, Static: w.static}, Deps{Bus: w.connect("controller")})
	if err != nil {
		t.Fatal(err)
	}
	r := &reign{s: s}
	for _, c := range r.newChores() {
		if in := time.Duration(c.dueMs-s.nowMs()) * time.Millisecond; in < 200*365*24*time.Hour || c.everyMs < 200*365*24*3600_000 {
			t.Errorf("%s: due in %v, every %d ms", c.name, in, c.everyMs)
		}
	}
}

// TestSessionsOfLessThanNothing has sessions end before they begin, by a key that accepts every int: when the next one ends must not seem to be
// long past, as if this process had stood still, which has it wait for the next one again, without end.
func TestSessionsOfLessThanNothing(t *testing.T) {
	s := cluster.NewSessions(metadata.Empty(), cluster.Env{Static: static(t, map[string]string{"broker.session.timeout.ms": "-2147483648"})})
	if ms := s.TimeoutMs(); ms < -pausedMs {
		t.Errorf("sessions of %d ms", ms)
	}
}
