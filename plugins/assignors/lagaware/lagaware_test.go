package lagaware

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
)

func request(members int, lag ...int64) *plugin.Request {
	r := &plugin.Request{Topics: []plugin.Topic{{Partitions: int32(len(lag)), Lag: lag}}}
	for m := range members {
		r.Members = append(r.Members, plugin.Member{ID: fmt.Sprintf("m%d", m), Topics: []int{0}})
	}
	return r
}

// assign makes the answer the members' target and returns each one's lag and number of partitions.
func assign(t *testing.T, r *plugin.Request) (lag []int64, count []int) {
	t.Helper()
	answer, err := Assignor{}.Assign(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	lag, count = make([]int64, len(r.Members)), make([]int, len(r.Members))
	for m, list := range answer {
		r.Members[m].Target = list
		for _, p := range list {
			for _, n := range p.Partitions {
				lag[m] += r.Topics[p.Topic].Lag[n]
				count[m]++
			}
		}
	}
	return lag, count
}

func TestTheHeaviestPartitionStandsAlone(t *testing.T) {
	lag, count := assign(t, request(3, 10, 10, 900, 10, 10, 400, 10, 400))
	slices.Sort(count)
	if slices.Max(lag) != 900 || fmt.Sprint(count) != "[1 3 4]" {
		t.Errorf("lag %v, partitions %v", lag, count)
	}
}

func TestWithinTheToleranceNothingMoves(t *testing.T) {
	r := request(2, 100, 100, 100, 100)
	assign(t, r)
	before := fmt.Sprint(r.Members)
	r.Topics[0].Lag = []int64{100, 115, 100, 110}
	if assign(t, r); fmt.Sprint(r.Members) != before {
		t.Errorf("before %s, after %v", before, r.Members)
	}
	r.Topics[0].Lag = []int64{100, 900, 100, 900}
	if lag, _ := assign(t, r); slices.Max(lag) > 1100 {
		t.Errorf("lag %v", lag)
	}
}

func TestAMemberThatJoinsGetsItsPartThoughOneIsFarBehind(t *testing.T) {
	lags := append(slices.Repeat([]int64{10}, 100), 1_000_000)
	r := request(2, lags...)
	assign(t, r)
	r.Members = append(r.Members, plugin.Member{ID: "m9", Topics: []int{0}})
	if _, count := assign(t, r); count[2] < 40 {
		t.Errorf("partitions %v", count)
	}
}

func TestUnknownLagIsSpread(t *testing.T) {
	for _, lag := range [][]int64{slices.Repeat([]int64{-1}, 12), slices.Repeat([]int64{0}, 12), append(slices.Repeat([]int64{-1}, 11), 50)} {
		r := request(4, lag...)
		if _, count := assign(t, r); slices.Max(count) != 3 {
			t.Errorf("%v: partitions %v", lag, count)
		}
	}
}
