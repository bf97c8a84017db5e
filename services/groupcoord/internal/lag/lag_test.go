package lag

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/server/servertest"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
)

// broker answers ListOffsets: partition p begins at 1,000·p + 20 and ends at 1,000·p + 100, ten of which are not stable, and partition 3
// has another leader by now.
func broker(t *testing.T) (host string, port uint16) {
	t.Helper()
	router := server.NewRouter()
	router.Register(
		server.API{Key: int16(kmsg.ListOffsets), MinVersion: 1, MaxVersion: 3, Handle: func(r *server.Request) {
			req, resp := kmsg.NewPtrListOffsetsRequest(), kmsg.NewPtrListOffsetsResponse()
			if err := r.Decode(req); err != nil {
				r.Fail(err)
				return
			}
			for _, asked := range req.Topics {
				topic := kmsg.ListOffsetsResponseTopic{Topic: asked.Topic}
				for _, p := range asked.Partitions {
					answer := kmsg.NewListOffsetsResponseTopicPartition()
					answer.Partition, answer.Offset = p.Partition, int64(p.Partition)*1000+100
					if p.Timestamp == earliest {
						answer.Offset -= 80
					}
					if req.IsolationLevel == committed {
						answer.Offset -= 10
					}
					if p.Partition == 3 {
						answer.ErrorCode = kerr.NotLeaderForPartition.Code
					}
					topic.Partitions = append(topic.Partitions, answer)
				}
				resp.Topics = append(resp.Topics, topic)
			}
			resp.SetVersion(req.Version)
			r.Reply(resp)
		}})
	return address(t, servertest.Serve(t, router, zap.NewNop()).String())
}

func address(t *testing.T, addr string) (host string, port uint16) {
	t.Helper()
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return host, uint16(n)
}

// silent accepts connections and never answers.
func silent(t *testing.T) (host string, port uint16) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return address(t, l.Addr().String())
}

// image has a topic whose partitions are led by these nodes.
func image(t *testing.T, id metadata.TopicID, nodes []metadata.Node, leaders ...int32) *metadata.Image {
	t.Helper()
	var records []*metadatapb.Record
	for _, n := range nodes {
		records = append(records, &metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: n.Record()}})
	}
	records = append(records, &metadatapb.Record{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: "orders", TopicId: id[:]}}})
	for i, leader := range leaders {
		p := metadata.Partition{ID: int32(i), Leader: leader}
		records = append(records, &metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: p.Record(id)}})
	}
	im, _, err := metadata.Empty().Apply(0, records)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func node(id int32, host string, port uint16) metadata.Node {
	return metadata.Node{ID: id, Incarnation: [16]byte{byte(id)}, Listeners: []metadata.Listener{{Name: "PLAINTEXT", Host: host, Port: port}}}
}

func TestMeasure(t *testing.T) {
	host, port := broker(t)
	deadHost, deadPort := silent(t)
	id := metadata.TopicID{1}
	im := image(t, id, []metadata.Node{node(1, host, port), node(2, deadHost, deadPort)}, 1, 1, 1, 1, 2, metadata.NoLeader, 1, 1)
	topics := []assignment.Topic{{ID: id, Name: "orders", Count: 8}, {ID: metadata.TopicID{2}, Name: "gone", Count: 1}}
	committed := [][]int64{{40, 1100, Unknown, 0, 0, Uncommitted, 7000, Uncommitted}, {Uncommitted}}
	tests := []struct{ listener, want string }{
		{"", "[[60 0 -1 -1 -1 -1 0 80] [-1]]"}, // partition 6 was committed beyond its end
		{"PLAINTEXT", "[[60 0 -1 -1 -1 -1 0 80] [-1]]"},
		{"OTHER", "[[-1 -1 -1 -1 -1 -1 -1 -1] [-1]]"},
	}
	for _, test := range tests {
		m := New(test.listener, "test", func() *metadata.Image { return im })
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if got := fmt.Sprint(m.Measure(ctx, topics, committed)); got != test.want {
			t.Errorf("listener %q: %s, want %s", test.listener, got, test.want)
		}
		cancel()
		m.Close()
	}
}
