package anywhere

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
)

func topicsByName(names ...string) []kmsg.MetadataRequestTopic {
	list := []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		list = append(list, kmsg.MetadataRequestTopic{Topic: text(name)})
	}
	return list
}

// codes are the topics of a response by name or id, with their error codes.
func codes(resp *kmsg.MetadataResponse) map[string]int16 {
	m := make(map[string]int16)
	for _, t := range resp.Topics {
		name := metadata.TopicID(t.TopicID).String()
		if t.Topic != nil {
			name = *t.Topic
		}
		if _, twice := m[name]; twice {
			name += " again"
		}
		m[name] = t.ErrorCode
	}
	return m
}

func TestMetadataBrokers(t *testing.T) {
	f := newFake(t)
	c := serve(t, f)
	for version := range int16(14) {
		resp := ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{Topics: topicsByName("b")}, version)
		var got []string
		for _, b := range resp.Brokers {
			rack := ""
			if b.Rack != nil {
				rack = *b.Rack
			}
			got = append(got, fmt.Sprintf("%d %s:%d %s", b.NodeID, b.Host, b.Port, rack))
		}
		want := []string{"1 host1:9091 ", "2 host2:9092 rack2"} // the coordinator too; not the fenced one, nor the one without listener
		if version == 0 {
			want[1] = "2 host2:9092 "
		}
		if !slices.Equal(got, want) {
			t.Errorf("v%d: %q", version, got)
		}
		if version >= 1 && resp.ControllerID != 1 || version >= 2 && *resp.ClusterID != "cluster" || resp.ErrorCode != 0 {
			t.Errorf("v%d: %+v", version, resp)
		}
	}
	// A node that clients cannot see names another as controller.
	f.apply(t, nodeRecord(1, true, []string{metadata.RoleBroker}, "", "PLAINTEXT"))
	if resp := ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{}, 9); resp.ControllerID != 2 {
		t.Errorf("controller %d", resp.ControllerID)
	}
}

func TestMetadataWhichTopics(t *testing.T) {
	f := newFake(t)
	c := serve(t, f)
	all := map[string]int16{"a": 0, "b": 0, "__consumer_offsets": 0}
	invalid, unknown := kerr.InvalidTopicException.Code, kerr.UnknownTopicOrPartition.Code
	for version := range int16(14) {
		none := map[string]int16{}
		if version == 0 {
			none = all
		}
		if got := codes(ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{Topics: topicsByName()}, version)); !reflect.DeepEqual(got, none) {
			t.Errorf("v%d, empty: %v", version, got)
		}
		if version > 0 {
			if got := codes(ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{}, version)); !reflect.DeepEqual(got, all) {
				t.Errorf("v%d, null: %v", version, got)
			}
		}
		if version < 4 { // those always create
			continue
		}
		got := codes(ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{Topics: topicsByName("b", "x", "", ".", "b", "a b", "__transaction_state")}, version))
		if want := map[string]int16{"b": 0, "x": unknown, "": invalid, ".": invalid, "a b": invalid, "__transaction_state": unknown}; !reflect.DeepEqual(got, want) {
			t.Errorf("v%d, names: %v", version, got)
		}
	}
	byID := []kmsg.MetadataRequestTopic{{TopicID: topicID(2)}, {TopicID: topicID(77)}, {TopicID: topicID(2), Topic: text("ignored")}, {Topic: text("a")}}
	for version := int16(12); version <= 13; version++ {
		got := codes(ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{Topics: byID}, version))
		if want := map[string]int16{"b": 0, topicID(77).String(): kerr.UnknownTopicID.Code}; !reflect.DeepEqual(got, want) {
			t.Errorf("v%d, ids: %v", version, got)
		}
		resp := ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{}}}, version)
		if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("v%d, neither id nor name: %+v", version, resp)
		}
	}
	for version := int16(10); version <= 11; version++ {
		resp := ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{Topics: byID[:1]}, version)
		if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("v%d, id: %+v", version, resp)
		}
	}
}

func TestMetadataPartitions(t *testing.T) {
	c := serve(t, newFake(t))
	for version := range int16(14) {
		resp := ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{Topics: topicsByName("a")}, version)
		topic := resp.Topics[0]
		if version >= 10 && metadata.TopicID(topic.TopicID) != topicID(1) {
			t.Errorf("v%d: id %v", version, topic.TopicID)
		}
		// The first has a fenced and an unregistered replica, the second a leader without this listener, the third no leader.
		listener := kerr.ListenerNotFound.Code
		if version < 6 {
			listener = kerr.LeaderNotAvailable.Code
		}
		want := []kmsg.MetadataResponseTopicPartition{
			{Partition: 0, Leader: 1, LeaderEpoch: 5, Replicas: []int32{1, 3, 9}, ISR: []int32{1, 3, 9}, OfflineReplicas: []int32{3, 9}},
			{Partition: 1, Leader: -1, LeaderEpoch: 6, Replicas: []int32{4, 1}, ISR: []int32{4, 1}, OfflineReplicas: []int32{4}, ErrorCode: listener},
			{Partition: 2, Leader: -1, LeaderEpoch: 7, Replicas: []int32{3}, ISR: []int32{3}, OfflineReplicas: []int32{3}, ErrorCode: kerr.LeaderNotAvailable.Code},
		}
		for i := range want {
			if version < 7 {
				want[i].LeaderEpoch = -1
			}
			if version < 5 {
				want[i].OfflineReplicas = nil
			}
		}
		if version == 0 { // replicas that cannot be reached are left out
			want[0].Replicas, want[0].ISR, want[0].ErrorCode = []int32{1, 3}, []int32{1, 3}, kerr.ReplicaNotAvailable.Code
			want[1].Replicas, want[1].ISR = []int32{1}, []int32{1}
		}
		if !reflect.DeepEqual(topic.Partitions, want) {
			t.Errorf("v%d:\n%+v\n%+v", version, topic.Partitions, want)
		}
	}
}

func TestMetadataAuthorizedOperations(t *testing.T) {
	c := serve(t, newFake(t))
	const notAsked = -1 << 31
	for version := int16(1); version <= 13; version++ {
		q := &kmsg.MetadataRequest{Topics: topicsByName("b")}
		resp := ask[*kmsg.MetadataResponse](c, q, version)
		if resp.AuthorizedOperations != notAsked || resp.Topics[0].AuthorizedOperations != notAsked {
			t.Errorf("v%d, not asked: %d, %d", version, resp.AuthorizedOperations, resp.Topics[0].AuthorizedOperations)
		}
		q.IncludeClusterAuthorizedOperations, q.IncludeTopicAuthorizedOperations = true, true
		cluster, topic := int32(notAsked), int32(notAsked)
		if version >= 8 {
			topic = 3576
		}
		if version >= 8 && version <= 10 {
			cluster = 8096
		}
		resp = ask[*kmsg.MetadataResponse](c, q, version)
		if resp.AuthorizedOperations != cluster || resp.Topics[0].AuthorizedOperations != topic {
			t.Errorf("v%d, asked: %d, %d", version, resp.AuthorizedOperations, resp.Topics[0].AuthorizedOperations)
		}
	}
}

// BL-027: a topic that a Metadata request creates is there in its answer, and what is not there yet is retriable.
func TestMetadataCreatesTopics(t *testing.T) {
	f := newFake(t)
	c := serve(t, f)
	outcome := map[string]*kerr.Error{
		"taken": kerr.TopicAlreadyExists, "wide": kerr.InvalidReplicationFactor, "busy": kerr.NotController, "a.b": kerr.InvalidTopicException,
	}
	f.forward = func(_ context.Context, key, version int16, body []byte) ([]byte, error) {
		q := kmsg.NewPtrCreateTopicsRequest()
		q.SetVersion(version)
		if err := q.ReadFrom(body); err != nil || key != 19 {
			t.Error(key, err)
		}
		resp := kmsg.NewPtrCreateTopicsResponse()
		resp.SetVersion(version)
		for _, topic := range q.Topics {
			if topic.NumPartitions != 3 || topic.ReplicationFactor != 1 {
				t.Errorf("%s is created with %d partitions and %d replicas", topic.Topic, topic.NumPartitions, topic.ReplicationFactor)
			}
			out := kmsg.NewCreateTopicsResponseTopic()
			out.Topic = topic.Topic
			if err := outcome[topic.Topic]; err != nil {
				out.ErrorCode = err.Code
			}
			if out.ErrorCode == 0 || outcome[topic.Topic] == kerr.TopicAlreadyExists {
				f.apply(t, topicRecords(topic.Topic, topicID(byte(100+f.Image().TopicCount())), partition(1, 0, 1))...)
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp.AppendTo(nil), nil
	}
	f.static = load(t, "num.partitions=3")
	q := &kmsg.MetadataRequest{AllowAutoTopicCreation: true, Topics: topicsByName("new", "b", "taken", "wide", "busy", "a.b", "not valid", "__share_group_state")}
	want := map[string]int16{
		"new": 0, "b": 0, "taken": 0, "wide": kerr.InvalidReplicationFactor.Code, "busy": kerr.LeaderNotAvailable.Code,
		"a.b": kerr.InvalidTopicException.Code, "not valid": kerr.InvalidTopicException.Code, "__share_group_state": kerr.UnknownTopicOrPartition.Code,
	}
	if got := codes(ask[*kmsg.MetadataResponse](c, q, 12)); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	// Old versions always create.
	got := codes(ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{Topics: topicsByName("old")}, 3))
	if !reflect.DeepEqual(got, map[string]int16{"old": 0}) {
		t.Errorf("v3: %v", got)
	}
	f.with(func() {
		f.forward = func(context.Context, int16, int16, []byte) ([]byte, error) { return nil, errors.New("no controller") }
	})
	got = codes(ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{AllowAutoTopicCreation: true, Topics: topicsByName("later")}, 12))
	if !reflect.DeepEqual(got, map[string]int16{"later": kerr.LeaderNotAvailable.Code}) {
		t.Errorf("no controller: %v", got)
	}
	f.with(func() { f.static = load(t, "auto.create.topics.enable=false") })
	got = codes(ask[*kmsg.MetadataResponse](c, &kmsg.MetadataRequest{AllowAutoTopicCreation: true, Topics: topicsByName("never")}, 12))
	if !reflect.DeepEqual(got, map[string]int16{"never": kerr.UnknownTopicOrPartition.Code}) {
		t.Errorf("switched off: %v", got)
	}
}

// load is the configuration of a node with the given keys set.
func load(t testing.TB, set ...string) config.Values {
	t.Helper()
	v, err := config.Load(configkeys.Broker(), config.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDescribeCluster(t *testing.T) {
	f := newFake(t)
	c, image := serve(t, f), f.Image()
	for version := range int16(3) {
		q := &kmsg.DescribeClusterRequest{EndpointType: 1, IncludeClusterAuthorizedOperations: true, IncludeFencedBrokers: true}
		resp := ask[*kmsg.DescribeClusterResponse](c, q, version)
		var got []string
		for _, b := range resp.Brokers {
			got = append(got, fmt.Sprintf("%d %s:%d %v", b.NodeID, b.Host, b.Port, b.IsFenced))
			n, _ := image.Node(b.NodeID)
			b.UnknownTags.Each(func(tag uint32, roles []byte) {
				if tag != RolesTag || string(roles) != strings.Join(n.Roles, ",") || len(roles) == 0 {
					t.Errorf("tag %x: %q", tag, roles)
				}
			})
			if b.UnknownTags.Len() != 1 {
				t.Errorf("node %d has %d tags", b.NodeID, b.UnknownTags.Len())
			}
		}
		want := []string{"1 host1:9091 false", "2 host2:9092 false"}
		if version >= 2 {
			want = append(want, "3 host3:9093 true")
		}
		if !slices.Equal(got, want) || resp.ClusterID != "cluster" || resp.ControllerID != 1 || resp.ClusterAuthorizedOperations != 8096 {
			t.Errorf("v%d: %q %+v", version, got, resp)
		}
		if version == 0 {
			continue
		}
		q.EndpointType = 2
		if resp := ask[*kmsg.DescribeClusterResponse](c, q, version); resp.ErrorCode != kerr.MismatchedEndpointType.Code {
			t.Errorf("v%d, controllers: %+v", version, resp)
		}
		q.EndpointType = 3
		if resp := ask[*kmsg.DescribeClusterResponse](c, q, version); resp.ErrorCode != kerr.UnsupportedEndpointType.Code {
			t.Errorf("v%d, type 3: %+v", version, resp)
		}
	}
}

// The pages of DescribeTopicPartitions as Apache Kafka 4.3.1 cuts them.
func TestDescribeTopicPartitionsPages(t *testing.T) {
	f := newFake(t)
	f.static = load(t, "max.request.partition.size.limit=4")
	c := serve(t, f)
	for _, tt := range []struct {
		topics []string
		limit  int32
		topic  string // of the cursor, "-" for none
		from   int32
		want   string
	}{
		{nil, 100, "-", 0, "__consumer_offsets[0] a[0 1 2] → b 0"}, // the node's limit is 4
		{nil, 1, "-", 0, "__consumer_offsets[0] → a 0"},
		{nil, 0, "-", 0, "__consumer_offsets[0] → a 0"},
		{nil, 2, "a", 1, "a[1 2] → b 0"},
		{nil, 2, "a", 2, "a[2] b[0] → b 1"},
		{nil, 2, "a", 3, "a[] b[0 1]"},
		{nil, 4, "aa", 1, "b[0 1]"},
		{nil, 4, "", 0, "__consumer_offsets[0] a[0 1 2] → b 0"},
		{nil, 4, "b", 2, "b[]"},
		{nil, 4, "c", 0, ""},
		{nil, 4, "a", -1, ""},
		{[]string{"b", "absent", "a", "a", "bad name"}, 4, "-", 0, "a[0 1 2] absent!3 b[0] → b 1"},
		{[]string{"b", "absent", "a"}, 4, "absent", 0, "absent!3 b[0 1]"},
		{[]string{"b", "a", "bad name"}, 3, "-", 0, "a[0 1 2] → b 0"},
		{[]string{"b", "bad name"}, 3, "-", 0, "b[0 1] bad name!17"},
		{[]string{"b"}, 4, "b", -1, "b!42"},
	} {
		q := &kmsg.DescribeTopicPartitionsRequest{ResponsePartitionLimit: tt.limit}
		for _, name := range tt.topics {
			q.Topics = append(q.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		if tt.topic != "-" {
			q.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: tt.topic, Partition: tt.from}
		}
		if got := pages(ask[*kmsg.DescribeTopicPartitionsResponse](c, q, 0)); got != tt.want {
			t.Errorf("%q from %s %d, %d at most:\n%s\n%s", tt.topics, tt.topic, tt.from, tt.limit, got, tt.want)
		}
	}
}

// pages writes a response as "topic[partitions]", "topic!code" and "→ cursor".
func pages(resp *kmsg.DescribeTopicPartitionsResponse) string {
	out := ""
	for _, topic := range resp.Topics {
		partitions := []int32{}
		for _, p := range topic.Partitions {
			partitions = append(partitions, p.Partition)
		}
		if out != "" {
			out += " "
		}
		if topic.ErrorCode != 0 {
			out += fmt.Sprintf("%s!%d", *topic.Topic, topic.ErrorCode)
		} else {
			out += *topic.Topic + fmt.Sprint(partitions)
		}
	}
	if resp.NextCursor != nil {
		out += fmt.Sprintf(" → %s %d", resp.NextCursor.Topic, resp.NextCursor.Partition)
	}
	return out
}

func TestDescribeTopicPartitionsDetails(t *testing.T) {
	f := newFake(t)
	p := partition(1, 8, 1, 2)
	p.EligibleLeaderReplicas, p.LastKnownElr, p.OfflineReplicas = []int32{2}, []int32{3}, []int32{1}
	f.apply(t, topicRecords("elr", topicID(7), p)...)
	c := serve(t, f)
	q := &kmsg.DescribeTopicPartitionsRequest{ResponsePartitionLimit: 10, Topics: []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "elr"}, {Topic: "b"}}}
	resp := ask[*kmsg.DescribeTopicPartitionsResponse](c, q, 0)
	want := kmsg.DescribeTopicPartitionsResponseTopicPartition{
		LeaderID: 1, LeaderEpoch: 8, Replicas: []int32{1, 2}, ISR: []int32{1, 2}, EligibleLeaderReplicas: []int32{2}, LastKnownELR: []int32{3},
		OfflineReplicas: []int32{1},
	}
	elr := resp.Topics[1]
	if metadata.TopicID(elr.TopicID) != topicID(7) || elr.AuthorizedOperations != 3576 || !reflect.DeepEqual(elr.Partitions[0], want) {
		t.Errorf("%+v", elr)
	}
	if b := resp.Topics[0].Partitions[0]; b.EligibleLeaderReplicas == nil || b.LastKnownELR == nil {
		t.Errorf("null lists: %+v", b)
	}
}
