//go:build conformance

package protocol

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
)

// settleTimeout bounds how long a new topic may answer with retriable errors.
const settleTimeout = 10 * time.Second

func createTopics(version int16, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis, req.Topics = version, 30_000, topics
	return req
}

func topicSpec(name string, partitions int32, replicas int16) kmsg.CreateTopicsRequestTopic {
	spec := kmsg.NewCreateTopicsRequestTopic()
	spec.Topic, spec.NumPartitions, spec.ReplicationFactor = name, partitions, replicas
	return spec
}

func topicConfig(name string, value *string) kmsg.CreateTopicsRequestTopicConfig {
	config := kmsg.NewCreateTopicsRequestTopicConfig()
	config.Name, config.Value = name, value
	return config
}

func metadata(topic string, create bool) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 9, create
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	return req
}

// TestNewTopicSettles: at once after a topic was created, Metadata, Produce and Fetch answer or ask to try again, and
// once one of them answers it goes on answering (BL-027).
func TestNewTopicSettles(t *testing.T) {
	for i := range 30 {
		c := dial(t)
		name := fmt.Sprintf("protocol-%s-settle-%d", run, i)
		res := do[*kmsg.CreateTopicsResponse](t, c, createTopics(5, topicSpec(name, 1, 1)))
		wantCode(t, "create "+name, res.Topics[0].ErrorCode, nil)
		checkSettles(t, c, name)
		dropTopic(t, c, name)
	}
}

// TestAutoCreatedTopicSettles: the same for topics that Metadata creates.
func TestAutoCreatedTopicSettles(t *testing.T) {
	c := dial(t)
	for i := range 20 {
		name := fmt.Sprintf("protocol-%s-auto-%d", run, i)
		code := do[*kmsg.MetadataResponse](t, c, metadata(name, true)).Topics[0].ErrorCode
		if code != 0 && !retriable(code) {
			t.Fatalf("metadata of %s: %s", name, codeName(code))
		}
		checkSettles(t, c, name)
		dropTopic(t, c, name)
	}
}

func checkSettles(t *testing.T, c *wire.Conn, name string) {
	t.Helper()
	probes := []func() int16{
		func() int16 {
			topic := do[*kmsg.MetadataResponse](t, c, metadata(name, false)).Topics[0]
			if topic.ErrorCode == 0 && len(topic.Partitions) == 0 {
				return kerr.LeaderNotAvailable.Code
			}
			if topic.ErrorCode == 0 {
				return topic.Partitions[0].ErrorCode
			}
			return topic.ErrorCode
		},
		func() int16 {
			req := wire.Produce(name, 0, wire.Batch{Records: records(1, baseMs)}.Encode())
			return do[*kmsg.ProduceResponse](t, c, req).Topics[0].Partitions[0].ErrorCode
		},
		func() int16 {
			return do[*kmsg.FetchResponse](t, c, wire.Fetch(name, 0, 0)).Topics[0].Partitions[0].ErrorCode
		},
	}
	settled := make([]bool, len(probes))
	deadline := time.Now().Add(settleTimeout)
	for answered := 0; answered < len(probes); {
		answered = 0
		for i, probe := range probes {
			code := probe()
			switch {
			case code == 0:
				settled[i] = true
				answered++
			case !retriable(code):
				t.Fatalf("%s, probe %d: %s", name, i, codeName(code))
			case settled[i]:
				t.Fatalf("%s, probe %d: %s after it had answered", name, i, codeName(code))
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: answering %v after %v", name, settled, settleTimeout)
		}
	}
}

func retriable(code int16) bool { return kerr.IsRetriable(kerr.ErrorForCode(code)) }

func dropTopic(t *testing.T, c *wire.Conn, name string) {
	t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 5, 30_000, []string{name}
	wantCode(t, "delete "+name, do[*kmsg.DeleteTopicsResponse](t, c, req).Topics[0].ErrorCode, nil)
}

// TestWhatIsNotThere: topics that do not exist are named as such, by name and by id (BL-087).
func TestWhatIsNotThere(t *testing.T) {
	c := dial(t)
	absent := "protocol-" + run + "-absent"
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.Version, del.TimeoutMillis, del.TopicNames = 5, 30_000, []string{absent}
	wantCode(t, "delete by name", do[*kmsg.DeleteTopicsResponse](t, c, del).Topics[0].ErrorCode, kerr.UnknownTopicOrPartition)

	there := newTopic(t, c, "there", 1)
	byID := kmsg.NewPtrDeleteTopicsRequest()
	byID.Version, byID.TimeoutMillis = 6, 30_000
	for _, id := range [][16]byte{there.ID, {1, 2, 3}} {
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.TopicID = id
		byID.Topics = append(byID.Topics, rt)
	}
	for _, rt := range do[*kmsg.DeleteTopicsResponse](t, c, byID).Topics {
		want := kerr.UnknownTopicID
		if rt.TopicID == there.ID {
			want = nil
		}
		wantCode(t, fmt.Sprintf("delete by id %x", rt.TopicID), rt.ErrorCode, want)
	}

	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Version, grow.TimeoutMillis = 3, 30_000
	gt := kmsg.NewCreatePartitionsRequestTopic()
	gt.Topic, gt.Count = absent, 4
	grow.Topics = append(grow.Topics, gt)
	wantCode(t, "create partitions", do[*kmsg.CreatePartitionsResponse](t, c, grow).Topics[0].ErrorCode, kerr.UnknownTopicOrPartition)

	describe := kmsg.NewPtrDescribeTopicPartitionsRequest()
	describe.ResponsePartitionLimit = 10
	dt := kmsg.NewDescribeTopicPartitionsRequestTopic()
	dt.Topic = absent
	describe.Topics = append(describe.Topics, dt)
	wantCode(t, "describe", do[*kmsg.DescribeTopicPartitionsResponse](t, c, describe).Topics[0].ErrorCode, kerr.UnknownTopicOrPartition)
}

// TestCreateTopicsIsChecked: what is refused, by which code, and that the good topics of the same request are made.
func TestCreateTopicsIsChecked(t *testing.T) {
	c := dial(t)
	name := func(s string) string { return "protocol-" + run + "-checked-" + s }
	value := func(s string) *string { return &s }
	spec := func(s string, change func(*kmsg.CreateTopicsRequestTopic)) kmsg.CreateTopicsRequestTopic {
		out := topicSpec(name(s), 1, 1)
		change(&out)
		return out
	}
	assign := func(brokers ...int32) []kmsg.CreateTopicsRequestTopicReplicaAssignment {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Replicas = brokers
		return append([]kmsg.CreateTopicsRequestTopicReplicaAssignment(nil), a)
	}
	type topic = kmsg.CreateTopicsRequestTopic
	cases := []struct {
		spec topic
		want *kerr.Error
	}{
		{spec("good", func(*topic) {}), nil},
		{spec("defaults", func(s *topic) { s.NumPartitions, s.ReplicationFactor = -1, -1 }), nil},
		{spec("bad name", func(*topic) {}), kerr.InvalidTopicException},
		{spec("no-partitions", func(s *topic) { s.NumPartitions = 0 }), kerr.InvalidPartitions},
		{spec("many-replicas", func(s *topic) { s.ReplicationFactor = 3 }), kerr.InvalidReplicationFactor},
		{spec("no-replicas", func(s *topic) { s.ReplicationFactor = 0 }), kerr.InvalidReplicationFactor},
		{spec("unknown-broker", func(s *topic) {
			s.NumPartitions, s.ReplicationFactor, s.ReplicaAssignment = -1, -1, assign(4242)
		}), kerr.InvalidReplicaAssignment},
		{spec("assigned-twice", func(s *topic) {
			s.ReplicaAssignment = assign(1)
		}), kerr.InvalidRequest},
		{spec("unknown-config", func(s *topic) { s.Configs = append(s.Configs, topicConfig("retention.mss", value("1"))) }), kerr.InvalidConfig},
		{spec("bad-config", func(s *topic) { s.Configs = append(s.Configs, topicConfig("retention.ms", value("soon"))) }), kerr.InvalidConfig},
		{spec("null-config", func(s *topic) { s.Configs = append(s.Configs, topicConfig("retention.ms", nil)) }), kerr.InvalidConfig},
	}
	var specs []topic
	want := map[string]*kerr.Error{}
	for _, tc := range cases {
		specs = append(specs, tc.spec)
		want[tc.spec.Topic] = tc.want
	}
	for _, got := range do[*kmsg.CreateTopicsResponse](t, c, createTopics(7, specs...)).Topics {
		wantCode(t, got.Topic, got.ErrorCode, want[got.Topic])
		if got.ErrorCode == 0 && (got.NumPartitions != 1 || got.ReplicationFactor != 1 || len(got.Configs) < 20) {
			t.Errorf("%s: answered %d partitions, %d replicas, %d configs", got.Topic, got.NumPartitions, got.ReplicationFactor, len(got.Configs))
		}
	}
	again := do[*kmsg.CreateTopicsResponse](t, c, createTopics(7, specs[0])).Topics[0]
	wantCode(t, "the same again", again.ErrorCode, kerr.TopicAlreadyExists)
	twice := do[*kmsg.CreateTopicsResponse](t, c, createTopics(7, topicSpec(name("twice"), 1, 1), topicSpec(name("twice"), 1, 1)))
	for _, got := range twice.Topics {
		wantCode(t, "the same name twice in one request", got.ErrorCode, kerr.InvalidRequest)
	}
	validate := createTopics(7, topicSpec(name("validated"), 1, 1))
	validate.ValidateOnly = true
	wantCode(t, "validate only", do[*kmsg.CreateTopicsResponse](t, c, validate).Topics[0].ErrorCode, nil)
	wantCode(t, "after validate only", do[*kmsg.MetadataResponse](t, c, metadata(name("validated"), false)).Topics[0].ErrorCode, kerr.UnknownTopicOrPartition)
	dropTopic(t, c, name("good"))
	dropTopic(t, c, name("defaults"))
}
