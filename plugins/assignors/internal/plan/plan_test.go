package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
)

// group makes a request from the partition counts of topics and the subscriptions of members.
func group(topics []int32, members ...[]int) *plugin.Request {
	r := &plugin.Request{}
	for i, n := range topics {
		r.Topics = append(r.Topics, plugin.Topic{ID: [16]byte{byte(i)}, Name: fmt.Sprintf("t%d", i), Partitions: n})
	}
	for i, list := range members {
		r.Members = append(r.Members, plugin.Member{ID: fmt.Sprintf("m%02d", i), Topics: list})
	}
	return r
}

func even(r *plugin.Request) *Plan {
	p := New(r)
	p.Fill(nil)
	p.Even()
	return p
}

// again makes a plan's outcome the target of the next request.
func again(r *plugin.Request, p *Plan) {
	for m, target := range p.Response() {
		r.Members[m].Target = target
	}
}

func moves(before, after *Plan) int {
	n := 0
	for t := range before.Owner {
		for i := range before.Owner[t] {
			if before.Owner[t][i] != after.Owner[t][i] {
				n++
			}
		}
	}
	return n
}

func TestOneSubscriptionMovesAsFewAsPossible(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		topics := []int32{int32(1 + rnd.IntN(20)), int32(1 + rnd.IntN(20))}
		members := slices.Repeat([][]int{{0, 1}}, 1+rnd.IntN(10))
		r := group(topics, members...)
		before := New(r)
		for t := range before.Owner {
			for n := range before.Owner[t] {
				before.Give(t, n, rnd.IntN(len(members))) // any balance
			}
		}
		again(r, before)
		after := even(r)
		if spread := slices.Max(after.Load) - slices.Min(after.Load); spread > 1 {
			t.Fatalf("seed %d: loads %v", seed, after.Load)
		}
		if got, want := moves(before, after), fewestMoves(before.Load); got != want {
			t.Errorf("seed %d: %d moves from loads %v, %d are enough", seed, got, before.Load, want)
		}
	}
}

// fewestMoves is how many partitions must move until loads differ by one at most: the largest keep what is left over.
func fewestMoves(loads []int) int {
	sorted := slices.Sorted(slices.Values(loads))
	slices.Reverse(sorted)
	total := 0
	for _, n := range sorted {
		total += n
	}
	floor, extra := total/len(sorted), total%len(sorted)
	moves := 0
	for i, n := range sorted {
		quota := floor
		if i < extra {
			quota++
		}
		moves += max(0, n-quota)
	}
	return moves
}

// TestNobodyCouldTakeFromOneWithTwoMore is what balance means where subscriptions differ.
func TestNobodyCouldTakeFromOneWithTwoMore(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		topics := []int32{int32(1 + rnd.IntN(20)), int32(1 + rnd.IntN(20)), int32(1 + rnd.IntN(20))}
		var members [][]int
		for range 2 + rnd.IntN(8) {
			members = append(members, [][]int{{0}, {0, 1}, {1, 2}, {0, 1, 2}, {2}, nil}[rnd.IntN(6)])
		}
		r := group(topics, members...)
		p := even(r)
		for topic := range p.Owner {
			for n, owner := range p.Owner[topic] {
				for _, other := range p.Subscribers[topic] {
					if p.Load[owner]-p.Load[other] > 1 {
						t.Errorf("seed %d: m%02d has %d, m%02d %d, and t%d-%d could move", seed, owner, p.Load[owner], other, p.Load[other], topic, n)
					}
				}
			}
		}
	}
}

func TestTargetsThatNoLongerFit(t *testing.T) {
	r := group([]int32{2, 2}, []int{0}, []int{0})
	r.Members[0].Target = []plugin.TopicPartitions{{Topic: 0, Partitions: []int32{0, 5}}, {Topic: 1, Partitions: []int32{0, 1}}}
	r.Members[1].Target = []plugin.TopicPartitions{{Topic: 0, Partitions: []int32{0}}}
	p := New(r)
	if fmt.Sprint(p.Owner) != "[[0 -1] [-1 -1]]" || fmt.Sprint(p.Load) != "[1 0]" {
		t.Errorf("owners %v, loads %v", p.Owner, p.Load)
	}
	p.Fill(nil)
	if fmt.Sprint(p.Owner) != "[[0 1] [-1 -1]]" {
		t.Errorf("owners %v: a topic without subscribers stays with nobody", p.Owner)
	}
}

func TestFillPrefers(t *testing.T) {
	p := New(group([]int32{4}, []int{0}, []int{0}))
	p.Fill(func(_, n, m int) bool { return (n < 2) == (m == 1) })
	if fmt.Sprint(p.Owner) != "[[1 0 0 1]]" {
		t.Errorf("owners %v", p.Owner)
	}
}
