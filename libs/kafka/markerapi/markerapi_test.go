package markerapi

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/server/servertest"
	"github.com/cauce-stream/cauce/libs/record"
)

// writes are the markers that were asked for.
type writes struct {
	mu  sync.Mutex
	got []string
}

// writer notes what it is asked for, and answers later.
func (w *writes) writer(name string, err error) Write {
	return func(_ trace.SpanContext, topic string, partition int32, e record.Ending, done func(error)) {
		w.mu.Lock()
		w.got = append(w.got, fmt.Sprintf("%s: %s-%d %+v", name, topic, partition, e))
		w.mu.Unlock()
		go done(err)
	}
}

func (w *writes) sorted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(slices.Values(w.got))
}

func TestEachPartHasItsWriter(t *testing.T) {
	var w writes
	router := server.NewRouter()
	Serve(router, "groups", w.writer("coordinator", fmt.Errorf("late: %w", kerr.InvalidProducerEpoch)))
	Serve(router, "", w.writer("broker", nil))
	q := kmsg.NewPtrWriteTxnMarkersRequest()
	q.Markers = []kmsg.WriteTxnMarkersRequestMarker{
		{ProducerID: 1, ProducerEpoch: 2, Committed: true, CoordinatorEpoch: 3, TransactionVersion: 2, Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{
			{Topic: "a", Partitions: []int32{0, 7}}, {Topic: "groups", Partitions: []int32{5}}}},
		{ProducerID: 4, Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "b", Partitions: []int32{1}}}},
	}
	pool := client.New(client.Config{})
	defer pool.Close()
	answer, err := pool.Do(t.Context(), servertest.Serve(t, router, zap.NewNop()).String(), q)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, m := range answer.(*kmsg.WriteTxnMarkersResponse).Markers {
		for _, topic := range m.Topics {
			for _, p := range topic.Partitions {
				codes = append(codes, fmt.Sprint(m.ProducerID, topic.Topic, p.Partition, p.ErrorCode))
			}
		}
	}
	if want := []string{"1a0 0", "1a7 0", "1groups5 47", "4b1 0"}; !slices.Equal(codes, want) {
		t.Errorf("codes %q, want %q", codes, want)
	}
	got := w.sorted()
	if want := []string{
		"broker: a-0 {Marker:{Type:1 CoordinatorEpoch:3} ProducerID:1 ProducerEpoch:2 TxnVersion:2}",
		"broker: a-7 {Marker:{Type:1 CoordinatorEpoch:3} ProducerID:1 ProducerEpoch:2 TxnVersion:2}",
		"broker: b-1 {Marker:{Type:0 CoordinatorEpoch:0} ProducerID:4 ProducerEpoch:0 TxnVersion:0}",
		"coordinator: groups-5 {Marker:{Type:1 CoordinatorEpoch:3} ProducerID:1 ProducerEpoch:2 TxnVersion:2}",
	}; !slices.Equal(got, want) {
		t.Errorf("written %q", got)
	}
}

func TestAPartThatNobodyStores(t *testing.T) {
	var w writes
	router := server.NewRouter()
	Serve(router, "groups", w.writer("coordinator", nil))
	q := kmsg.NewPtrWriteTxnMarkersRequest()
	q.Markers = []kmsg.WriteTxnMarkersRequestMarker{{Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "a", Partitions: []int32{0}}}}, {}}
	pool := client.New(client.Config{})
	defer pool.Close()
	answer, err := pool.Do(t.Context(), servertest.Serve(t, router, zap.NewNop()).String(), q)
	if err != nil {
		t.Fatal(err)
	}
	if markers := answer.(*kmsg.WriteTxnMarkersResponse).Markers; len(markers) != 2 || markers[0].Topics[0].Partitions[0].ErrorCode != kerr.NotLeaderForPartition.Code {
		t.Errorf("answered %+v", markers)
	}
}
