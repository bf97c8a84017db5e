package anywhere

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

func shardRecord(topic metadata.TopicID, partition, owner, epoch int32) *metadatapb.Record {
	return &metadatapb.Record{Record: &metadatapb.Record_CoordinatorShard{
		CoordinatorShard: metadata.Shard{Owner: owner, Epoch: epoch}.Record(topic, partition),
	}}
}

// withTransactions adds a topic of two shards, of which node 2 owns the second, to the fake's cluster.
func withTransactions(t *testing.T, f *fake) {
	f.apply(t, topicRecords(metadata.TransactionStateTopic, topicID(4), partition(1, 0, 1), partition(1, 0, 1))...)
	f.apply(t, shardRecord(topicID(4), 1, 2, 1))
}

// findings are the answers to a FindCoordinator of any version, "key node host:port" or "key !code" each.
func findings(c *client, version int16, kind int8, keys ...string) []string {
	c.t.Helper()
	show := func(key string, code int16, node int32, host string, port int32) string {
		if code != 0 {
			if node != -1 || host != "" || port != -1 {
				c.t.Errorf("v%d: code %d with node %d at %s:%d", version, code, node, host, port)
			}
			return fmt.Sprintf("%s !%d", key, code)
		}
		return fmt.Sprintf("%s %d %s:%d", key, node, host, port)
	}
	var got []string
	if version >= 4 {
		q := kmsg.NewPtrFindCoordinatorRequest()
		q.CoordinatorType, q.CoordinatorKeys = kind, keys
		for _, out := range ask[*kmsg.FindCoordinatorResponse](c, q, version).Coordinators {
			got = append(got, show(out.Key, out.ErrorCode, out.NodeID, out.Host, out.Port))
		}
		return got
	}
	for _, key := range keys {
		q := kmsg.NewPtrFindCoordinatorRequest()
		q.CoordinatorType, q.CoordinatorKey = kind, key
		out := ask[*kmsg.FindCoordinatorResponse](c, q, version)
		got = append(got, show(key, out.ErrorCode, out.NodeID, out.Host, out.Port))
	}
	return got
}

// Every version answers from the image, whoever is asked.
func TestFindCoordinator(t *testing.T) {
	f := newFake(t)
	f.apply(t, shardRecord(topicID(3), 0, 2, 1))
	withTransactions(t, f)
	c := serve(t, f)
	for version := range int16(7) {
		for kind, want := range [][]string{
			groupCoordinator:       {"g 2 host2:9092", "h 2 host2:9092"},
			transactionCoordinator: {"g 2 host2:9092", "h !15"}, // hashes 103 and 104
			shareCoordinator:       {"g !42", "h !42"},
			3:                      {"g !42", "h !42"},
		} {
			if version == 0 && kind > 0 {
				continue // it has no kinds
			}
			if got := findings(c, version, int8(kind), "g", "h"); !slices.Equal(got, want) {
				t.Errorf("v%d kind %d: %v, want %v", version, kind, got, want)
			}
		}
	}
	if got := findings(c, 4, groupCoordinator); len(got) != 0 {
		t.Errorf("no keys: %v", got)
	}
	share := "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
	for version, want := range map[int16]string{5: share + " !42", 6: share + " !15"} {
		if got := findings(c, version, shareCoordinator, share); !slices.Equal(got, []string{want}) {
			t.Errorf("v%d: %v", version, got)
		}
	}
}

// An owner that clients cannot reach is as good as none.
func TestFindCoordinatorThatIsOutOfReach(t *testing.T) {
	f := newFake(t)
	c := serve(t, f)
	check := func(owner string, want string) {
		t.Helper()
		if got := findings(c, 6, groupCoordinator, "g"); !slices.Equal(got, []string{"g " + want}) {
			t.Errorf("%s: %v", owner, got)
		}
	}
	check("nobody ever", "!15")
	for i, tt := range []struct {
		owner int32
		want  string
	}{{2, "2 host2:9092"}, {3, "!15"}, {4, "!15"}, {9, "!15"}, {metadata.NoOwner, "!15"}, {1, "1 host1:9091"}} {
		f.apply(t, shardRecord(topicID(3), 0, tt.owner, int32(i+1)))
		check(fmt.Sprint(tt.owner), tt.want)
	}
}

func TestShareKeys(t *testing.T) {
	for key, valid := range map[string]bool{
		"g:AAAAAAAAAAAAAAAAAAAAAQ:0": true, ":AAAAAAAAAAAAAAAAAAAAAQ:0": false, "g:AAAAAAAAAAAAAAAAAAAAAQ:-1": false, "g:x:0": false, "g": false,
	} {
		if validShareKey(key) != valid {
			t.Errorf("share key %q", key)
		}
	}
}

// createdTopic reads a forwarded request for one topic.
func createdTopic(t *testing.T, key, version int16, body []byte) kmsg.CreateTopicsRequestTopic {
	t.Helper()
	q := kmsg.NewPtrCreateTopicsRequest()
	q.SetVersion(version)
	if err := q.ReadFrom(body); err != nil || key != 19 || len(q.Topics) != 1 {
		t.Fatalf("key %d v%d: %+v, %v", key, version, q, err)
	}
	return q.Topics[0]
}

func createTopicsAnswer(version int16, name string, code int16, message *string) []byte {
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.SetVersion(version)
	out := kmsg.NewCreateTopicsResponseTopic()
	out.Topic, out.ErrorCode, out.ErrorMessage = name, code, message
	resp.Topics = append(resp.Topics, out)
	return resp.AppendTo(nil)
}

// The topic is created as Kafka's coordinators create it, by the node itself, and the client that asked finds it.
func TestFindCoordinatorCreatesTheTopic(t *testing.T) {
	f := newFake(t)
	var err error
	if f.static, err = config.FromMap(configkeys.Broker(), map[string]string{
		"transaction.state.log.num.partitions": "2", "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
	}); err != nil {
		t.Fatal(err)
	}
	f.forward = func(_ context.Context, key, version int16, body []byte) ([]byte, error) {
		got := createdTopic(t, key, version, body)
		configs := map[string]string{}
		for _, c := range got.Configs {
			configs[c.Name] = *c.Value
		}
		want := map[string]string{
			"cleanup.policy": "compact", "compression.type": "uncompressed", "segment.bytes": "104857600",
			"min.insync.replicas": "1", "unclean.leader.election.enable": "false",
		}
		if got.Topic != metadata.TransactionStateTopic || got.NumPartitions != 2 || got.ReplicationFactor != 1 || !reflect.DeepEqual(configs, want) {
			t.Errorf("%+v with %v", got, configs)
		}
		withTransactions(t, f)
		return createTopicsAnswer(version, got.Topic, 0, nil), nil
	}
	c := serve(t, f)
	if got := findings(c, 4, transactionCoordinator, "g", "h"); !slices.Equal(got, []string{"g 2 host2:9092", "h !15"}) {
		t.Errorf("%v", got)
	}
	f.with(func() {
		if f.sender != "Node:1  " {
			t.Errorf("sent as %q", f.sender)
		}
	})
	for _, kind := range []int8{shareCoordinator, 3} {
		f.with(func() { f.forward = nil })
		findings(c, 6, kind, "g")
	}
}

func TestTopicOfGroups(t *testing.T) {
	got := topicOf(configkeys.Broker().Defaults(), metadata.ConsumerOffsetsTopic)
	configs := map[string]string{}
	for _, c := range got.Configs {
		configs[c.Name] = *c.Value
	}
	want := map[string]string{"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
	if got.Topic != metadata.ConsumerOffsetsTopic || got.NumPartitions != 50 || got.ReplicationFactor != 3 || !reflect.DeepEqual(configs, want) {
		t.Errorf("%+v with %v", got, configs)
	}
}

// However many clients ask, the controller is asked by one at a time, and is left alone for a while after it refused;
// the log says why.
func TestTopicsAreNotAskedForAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines, seen := observer.New(zap.WarnLevel)
		f := newFake(t)
		asked, release := 0, make(chan struct{})
		why := "Unable to replicate the partition 3 time(s)"
		f.forward = func(_ context.Context, key, version int16, body []byte) ([]byte, error) {
			asked++
			<-release
			return createTopicsAnswer(version, createdTopic(t, key, version, body).Topic, kerr.InvalidReplicationFactor.Code, &why), nil
		}
		c := newCoordinatorTopics(f, zap.New(lines))
		create := func() { c.create(t.Context(), metadata.TransactionStateTopic) }
		go create()
		synctest.Wait()
		create() // returns although the other does not
		c.create(t.Context(), metadata.TransactionStateTopic)
		close(release)
		synctest.Wait()
		create()
		if asked != 1 {
			t.Errorf("the controller was asked %d times at once", asked)
		}
		time.Sleep(createPause - 1)
		create()
		if asked != 1 {
			t.Errorf("the controller was asked %d times within the pause", asked)
		}
		time.Sleep(time.Nanosecond)
		create()
		if asked != 2 {
			t.Errorf("the controller was asked %d times after the pause", asked)
		}
		entries := seen.All()
		if len(entries) != 2 || entries[0].ContextMap()["error"] != why+": "+kerr.InvalidReplicationFactor.Error() {
			t.Errorf("logged %v", entries)
		}
	})
}

// BL-113: a node that coordinates nothing lists no groups, and says so of those that it is asked for.
func TestGroupAPIsOfANodeThatCoordinatesNothing(t *testing.T) {
	c := serve(t, newFake(t))
	for version := range int16(6) {
		if resp := ask[*kmsg.ListGroupsResponse](c, kmsg.NewPtrListGroupsRequest(), version); resp.ErrorCode != 0 || len(resp.Groups) != 0 {
			t.Errorf("v%d: %+v", version, resp)
		}
	}
	resp := ask[*kmsg.DescribeGroupsResponse](c, &kmsg.DescribeGroupsRequest{Groups: []string{"g", "h"}}, 6)
	for _, g := range resp.Groups {
		if g.ErrorCode != kerr.NotCoordinator.Code {
			t.Errorf("%+v", g)
		}
	}
	if len(resp.Groups) != 2 {
		t.Errorf("%d groups", len(resp.Groups))
	}
	if resp := ask[*kmsg.JoinGroupResponse](c, &kmsg.JoinGroupRequest{Group: "g"}, 9); resp.ErrorCode != kerr.NotCoordinator.Code {
		t.Errorf("%+v", resp)
	}
}

// A process that coordinates groups registers their APIs itself.
func TestOwnGroupAPIs(t *testing.T) {
	router := server.NewRouter()
	register(router, newFake(t), Options{OwnGroupAPIs: true})
	for _, k := range router.Versions() {
		if k.ApiKey == 11 {
			t.Error("JoinGroup is registered")
		}
	}
	router.Register(server.API{Key: 11, MaxVersion: 9, Handle: notCoordinator(groupapi.Refuse)})
}

// Every node offers the APIs of transactions, and one that coordinates none has none to list.
func TestTransactionsElsewhere(t *testing.T) {
	c := serve(t, newFake(t))
	if resp := ask[*kmsg.EndTxnResponse](c, &kmsg.EndTxnRequest{TransactionalID: "t"}, 5); resp.ErrorCode != kerr.NotCoordinator.Code {
		t.Errorf("%+v", resp)
	}
	if resp := ask[*kmsg.ListTransactionsResponse](c, kmsg.NewPtrListTransactionsRequest(), 2); resp.ErrorCode != 0 || len(resp.TransactionStates) != 0 {
		t.Errorf("%+v", resp)
	}
}

// A process that coordinates transactions registers their APIs itself.
func TestOwnTxnAPIs(t *testing.T) {
	router := server.NewRouter()
	register(router, newFake(t), Options{OwnTxnAPIs: true})
	for _, k := range router.Versions() {
		if k.ApiKey == 22 || k.ApiKey == 26 {
			t.Errorf("key %d is registered", k.ApiKey)
		}
	}
}

// TestCoordinatorsTopicsCanBeMade has every key of the coordinators' topics at the least that it accepts, which the topics have to accept as well.
func TestCoordinatorsTopicsCanBeMade(t *testing.T) {
	least := map[string]string{}
	for _, key := range []string{"offsets.topic.segment.bytes", "transaction.state.log.segment.bytes", "transaction.state.log.min.isr"} {
		least[key] = "1"
	}
	static, err := config.FromMap(configkeys.Broker(), least)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{metadata.ConsumerOffsetsTopic, metadata.TransactionStateTopic} {
		configs := map[string]string{}
		for _, c := range topicOf(static, name).Configs {
			configs[c.Name] = *c.Value
		}
		if err := configkeys.ValidateTopic(configs); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
