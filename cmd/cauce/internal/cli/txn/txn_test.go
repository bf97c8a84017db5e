package txn

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestDetails(t *testing.T) {
	txn := transaction{
		ID: "orders-0", State: "Ongoing", Coordinator: 301, ProducerID: 7, Epoch: 3, TimeoutMs: 60_000, StartMs: 1_700_000_000_000,
		Topics: []partitions{{"__consumer_offsets", []int32{4}}, {"orders", []int32{0, 2}}},
	}
	var b strings.Builder
	if err := txn.write(&b, time.UnixMilli(1_700_000_001_500)); err != nil {
		t.Fatal(err)
	}
	want := `Transactional id  orders-0
State             Ongoing
Coordinator       301
Producer id       7
Producer epoch    3
Timeout           1m0s
Began             2023-11-14T22:13:20Z, 1.5s ago
Partitions        __consumer_offsets 4
Partitions        orders 0,2
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestWhatHangs(t *testing.T) {
	known := map[int64]transaction{
		1: {ID: "open", State: "Ongoing", ProducerID: 1, Epoch: 5, Topics: []partitions{{"a", []int32{0}}}},
		2: {ID: "over", State: "CompleteAbort", ProducerID: 2, Epoch: 6},
		3: {ID: "old", State: "Ongoing", ProducerID: 3, Epoch: 1, Topics: []partitions{{"a", []int32{0}}}},
	}
	open := []hanging{
		{Topic: "a", Partition: 0, ProducerID: 1, Epoch: 5},
		{Topic: "a", Partition: 1, ProducerID: 1, Epoch: 5},
		{Topic: "a", Partition: 0, ProducerID: 2, Epoch: 5},
		{Topic: "a", Partition: 0, ProducerID: 3, Epoch: 2},
		{Topic: "a", Partition: 0, ProducerID: 4},
	}
	var got []string
	for _, h := range judge(open, known) {
		got = append(got, h.ID+": "+h.Reason)
	}
	want := []string{
		"open: the partition is not in the coordinator's transaction (Ongoing)",
		"over: the partition is not in the coordinator's transaction (CompleteAbort)",
		"old: the coordinator has an older epoch of the producer",
		": no transactional id has the producer id",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}
