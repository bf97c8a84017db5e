package diagnosis

import (
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group/snapshot"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/txn/ledger"
)

// stable is a partition whose last stable offset is not its end.
func stable(o snapshot.Offset, offset int64) snapshot.Offset {
	o.Stable = offset
	return o
}

func TestHeld(t *testing.T) {
	tests := []struct {
		name          string
		before, after snapshot.Offset
		want          bool
	}{
		{"at the last stable offset", stable(at(0, 10, 0, 12), 10), stable(at(0, 10, 0, 15), 10), true},
		{"nothing more was written", stable(at(0, 10, 0, 12), 10), stable(at(0, 10, 0, 12), 10), true},
		{"a marker between", stable(at(0, 9, 0, 12), 10), stable(at(0, 9, 0, 15), 10), true},
		{"far from it", stable(at(0, 9, 0, 120), 100), stable(at(0, 9, 0, 150), 100), false},
		{"the last stable offset moves", stable(at(0, 10, 0, 12), 10), stable(at(0, 10, 0, 15), 13), false},
		{"the group moves", stable(at(0, 8, 0, 12), 10), stable(at(0, 10, 0, 15), 10), false},
		{"reads what is not committed", stable(at(0, 12, 0, 14), 10), stable(at(0, 12, 0, 15), 10), false},
		{"all is stable", at(0, 10, 0, 10), at(0, 10, 0, 10), false},
		{"opened just now", at(0, 10, 0, 10), stable(at(0, 10, 0, 12), 10), false},
		{"nothing committed", stable(at(0, -1, 0, 5), 0), stable(at(0, -1, 0, 5), 0), false},
		{"not known", stable(at(0, 10, 0, 12), -1), stable(at(0, 10, 0, 12), -1), false},
		{"not subscribed to", unsubscribed(stable(at(0, 10, 0, 12), 10)), unsubscribed(stable(at(0, 10, 0, 15), 10)), false},
	}
	for _, test := range tests {
		if got := Held(sample(group(), test.before), sample(group(), test.after)); (len(got) == 1) != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestNamesWhoHoldsTheLastStableOffset(t *testing.T) {
	now := time.UnixMilli(1_700_000_100_000)
	open := ledger.Open{Topic: "t", ProducerID: 7, Epoch: 3, Start: 10, LastMs: now.Add(-40 * time.Second).UnixMilli()}
	transaction := func(state string, topics ...ledger.Partitions) map[int64]ledger.Transaction {
		return map[int64]ledger.Transaction{7: {
			ID: "pay", State: state, ProducerID: 7, Epoch: 3, TimeoutMs: 60_000, StartMs: now.Add(-45 * time.Second).UnixMilli(), Topics: topics,
		}}
	}
	in := ledger.Partitions{Topic: "t", IDs: []int32{0}}
	tests := []struct {
		name  string
		known map[int64]ledger.Transaction
		want  string
	}{
		{"open", transaction("Ongoing", in),
			`transactional id "pay" (producer 7, epoch 3) has a transaction open since 45s, which its coordinator aborts after 1m0s; try: cauce txn abort pay`},
		{"decided", transaction("PrepareCommit", in),
			`the transaction of transactional id "pay" (producer 7, epoch 3) is decided since 45s (PrepareCommit), and its marker is not written yet; see: cauce txn describe pay`},
		{"hanging", transaction("Empty"),
			`transactional id "pay" (producer 7, epoch 3) has a transaction open there, and no coordinator will end it: ` +
				`the partition is not in the coordinator's transaction (Empty); try: cauce txn abort --topic t --partition 0 --start-offset 10`},
		{"of nobody", nil,
			`producer 7, epoch 3 has a transaction open there and wrote last 40s ago, and no coordinator will end it: ` +
				`no transactional id has the producer id; try: cauce txn abort --topic t --partition 0 --start-offset 10`},
	}
	where := "consumers of committed records wait at the last stable offset 10, before 5 more: "
	before, after := sample(group(), stable(at(0, 10, 0, 12), 10)), sample(group(), stable(at(0, 10, 0, 15), 10))
	for _, test := range tests {
		after.Holding = Holders([]ledger.Open{open}, test.known, now)
		r := Of(before, after, 10*time.Second)
		if f := r.Findings[0]; r.Judgement != HungTxn || f.About != "t:0" || f.What != where+test.want {
			t.Errorf("%s: %s, %+v, want %s", test.name, r.Judgement, f, test.want)
		}
	}
	after.Holding = nil
	if r := Of(before, after, 10*time.Second); r.Judgement != HungTxn || !strings.HasSuffix(r.Findings[0].What, "cauce txn find-hanging --topic t --older-than 0s") {
		t.Errorf("without an answer: %+v", r)
	}
}
