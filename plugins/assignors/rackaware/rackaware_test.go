package rackaware

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
)

var racks = []string{"a", "b", "c"}

// spread is a group of members over three racks, and a topic whose partitions have replicas in some of them.
func spread(members, partitions, replicas int) *plugin.Request {
	r := &plugin.Request{Topics: []plugin.Topic{{Partitions: int32(partitions)}}}
	for p := range partitions {
		r.Topics[0].Racks = append(r.Topics[0].Racks, slices.Concat(racks[p%3:], racks[:p%3])[:replicas])
	}
	for m := range members {
		r.Members = append(r.Members, plugin.Member{ID: fmt.Sprintf("m%03d", m), Rack: racks[m%3], Topics: []int{0}})
	}
	return r
}

// local counts the partitions in their owner's rack, and the difference between the loads.
func local(t *testing.T, r *plugin.Request) (n, difference int) {
	t.Helper()
	answer, err := Assignor{}.Assign(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	least, most := int(r.Topics[0].Partitions), 0
	for m, list := range answer {
		load := 0
		for _, p := range list {
			load += len(p.Partitions)
			for _, number := range p.Partitions {
				if slices.Contains(r.Topics[p.Topic].Racks[number], r.Members[m].Rack) {
					n++
				}
			}
		}
		least, most = min(least, load), max(most, load)
		r.Members[m].Target = list
	}
	return n, most - least
}

func TestAllIsLocalWhereThatIsPossible(t *testing.T) {
	for _, replicas := range []int{1, 2, 3} {
		r := spread(9, 90, replicas)
		if n, difference := local(t, r); n != 90 || difference > 1 {
			t.Errorf("%d replicas: %d of 90 are local, loads differ by %d", replicas, n, difference)
		}
	}
}

// TestScatteredTargetsBecomeLocal begins with an even assignment in which nothing is where it should be.
func TestScatteredTargetsBecomeLocal(t *testing.T) {
	for seed := range uint64(50) {
		r := spread(9, 90, 1)
		rnd := rand.New(rand.NewPCG(seed, 0))
		for i, p := range rnd.Perm(90) {
			m := &r.Members[i%9]
			m.Target = append(m.Target, plugin.TopicPartitions{Topic: 0, Partitions: []int32{int32(p)}})
		}
		if n, difference := local(t, r); n != 90 || difference > 1 {
			t.Errorf("seed %d: %d of 90 are local, loads differ by %d", seed, n, difference)
		}
	}
}

func TestBalanceComesBeforeLocality(t *testing.T) {
	r := spread(6, 60, 1)
	for m := range r.Members {
		r.Members[m].Rack = "a" // where a third of the partitions is
	}
	r.Members[0].Rack = "b"
	n, difference := local(t, r)
	if n != 30 || difference > 1 { // 10 of b, and all 20 of a
		t.Errorf("%d are local, loads differ by %d", n, difference)
	}
}

func TestLocalPartitionsStay(t *testing.T) {
	r := spread(9, 90, 2)
	if _, difference := local(t, r); difference > 1 {
		t.Fatal("not balanced")
	}
	before := fmt.Sprint(r.Members)
	if n, _ := local(t, r); n != 90 || fmt.Sprint(r.Members) != before {
		t.Error("a settled assignment has changed")
	}
}
