package quorum

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func state(id int32, end, fetched, caughtUp int64) kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	s.ReplicaID, s.LogEndOffset, s.LastFetchTimestamp, s.LastCaughtUpTimestamp = id, end, fetched, caughtUp
	return s
}

func TestStatusTellsWhoIsBehind(t *testing.T) {
	response := kmsg.NewPtrDescribeQuorumResponse()
	topic, p := kmsg.NewDescribeQuorumResponseTopic(), kmsg.NewDescribeQuorumResponseTopicPartition()
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = 102, 7, 90
	p.CurrentVoters = []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{state(101, 90, 9_000, 8_500), state(102, 100, 10_000, 10_000), state(103, -1, -1, -1)}
	p.Observers = []kmsg.DescribeQuorumResponseTopicPartitionReplicaState{state(1, 101, 9_990, 9_990)}
	topic.Partitions = append(topic.Partitions, p)
	response.Topics = append(response.Topics, topic)
	node, listener := kmsg.NewDescribeQuorumResponseNode(), kmsg.NewDescribeQuorumResponseNodeListener()
	node.NodeID, listener.Host, listener.Port = 101, "::1", 9093
	node.Listeners = append(node.Listeners, listener)
	response.Nodes = append(response.Nodes, node)

	var b strings.Builder
	if err := read(response).write(&b, time.UnixMilli(10_000)); err != nil {
		t.Fatal(err)
	}
	want := `Leader          102
Epoch           7
High watermark  90

NODE  ROLE      LOG END  LAG  LAST FETCH  LAST CAUGHT UP  ADDRESS
 102  leader        100    0      0s ago          0s ago  -
 101  voter          90   10      1s ago        1.5s ago  [::1]:9093
 103  voter           -    -           -               -  -
   1  observer      101    0    10ms ago        10ms ago  -
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
