package txn

import (
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/txn/ledger"
)

func TestDetails(t *testing.T) {
	txn := ledger.Transaction{
		ID: "orders-0", State: "Ongoing", Coordinator: 301, ProducerID: 7, Epoch: 3, TimeoutMs: 60_000, StartMs: 1_700_000_000_000,
		Topics: []ledger.Partitions{{Topic: "__consumer_offsets", IDs: []int32{4}}, {Topic: "orders", IDs: []int32{0, 2}}},
	}
	var b strings.Builder
	if err := write(&b, &txn, time.UnixMilli(1_700_000_001_500)); err != nil {
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
