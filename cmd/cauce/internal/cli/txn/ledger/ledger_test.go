package ledger

import (
	"reflect"
	"testing"
)

func TestWhatHangs(t *testing.T) {
	known := map[int64]Transaction{
		1: {ID: "open", State: "Ongoing", ProducerID: 1, Epoch: 5, Topics: []Partitions{{"a", []int32{0}}}},
		2: {ID: "over", State: "CompleteAbort", ProducerID: 2, Epoch: 6},
		3: {ID: "old", State: "Ongoing", ProducerID: 3, Epoch: 1, Topics: []Partitions{{"a", []int32{0}}}},
	}
	open := []Open{
		{Topic: "a", Partition: 0, ProducerID: 1, Epoch: 5},
		{Topic: "a", Partition: 1, ProducerID: 1, Epoch: 5},
		{Topic: "a", Partition: 0, ProducerID: 2, Epoch: 5},
		{Topic: "a", Partition: 0, ProducerID: 3, Epoch: 2},
		{Topic: "a", Partition: 0, ProducerID: 4},
	}
	var got []string
	for _, h := range Hanging(open, known) {
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
