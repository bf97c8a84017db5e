package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func list(replicas ...[]int32) []Partition {
	var all []Partition
	for i, r := range replicas {
		all = append(all, Partition{Topic: "t", Partition: int32(i), Replicas: r})
	}
	return all
}

func count(partitions []Partition) (replicas, leads map[int32]int) {
	replicas, leads = map[int32]int{}, map[int32]int{}
	for _, p := range partitions {
		leads[p.Replicas[0]]++
		for _, id := range p.Replicas {
			replicas[id]++
		}
	}
	return replicas, leads
}

// TestSpreadIsEvenAndMovesLittle goes through random clusters.
func TestSpreadIsEvenAndMovesLittle(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		racks := []string{"", "abc"}[r.IntN(2)]
		var brokers []Broker
		for id := range int32(r.IntN(6) + 3) {
			b := Broker{ID: id}
			if racks != "" {
				b.Rack = racks[id%3 : id%3+1]
			}
			brokers = append(brokers, b)
		}
		var partitions []Partition
		for i := range r.IntN(40) + 1 {
			p := Partition{Topic: "t", Partition: int32(i)}
			for _, id := range r.Perm(10)[:3] {
				p.Replicas = append(p.Replicas, int32(id))
			}
			partitions = append(partitions, p)
		}
		got, err := Spread(partitions, brokers)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("seed %d: %v to %v", seed, partitions, got)
		for i, p := range got {
			used := map[string]bool{}
			for _, id := range p.Replicas {
				used[brokers[id].Rack] = true
			}
			if s := slices.Sorted(slices.Values(p.Replicas)); len(p.Replicas) != 3 || len(slices.Compact(s)) != 3 || p.Name() != partitions[i].Name() {
				t.Fatalf("%s: %v", name, p)
			}
			if racks != "" && len(used) != 3 {
				t.Fatalf("%s: %v is on racks %v", name, p, used)
			}
		}
		replicas, leads := count(got)
		least, most := 3*len(partitions)/len(brokers), (3*len(partitions)+len(brokers)-1)/len(brokers)
		for _, b := range brokers {
			n, leads := replicas[b.ID], leads[b.ID]
			if racks == "" && (n < least || n > most) || leads > (len(partitions)+len(brokers)-1)/len(brokers)+1 {
				t.Fatalf("%s: broker %d has %d replicas and leads %d", name, b.ID, n, leads)
			}
		}
		again, err := Spread(got, brokers)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range got {
			if now := again[i]; !slices.Equal(slices.Sorted(slices.Values(p.Replicas)), slices.Sorted(slices.Values(now.Replicas))) {
				t.Fatalf("%s is even, and spread again %v moves to %v", name, p, now)
			}
		}
	}
}

// A broker that comes gets its part of what others have.
func TestSpreadToMoreBrokers(t *testing.T) {
	now := list([]int32{2, 3, 4}, []int32{3, 4, 2}, []int32{4, 2, 3}, []int32{4, 3, 2})
	got, err := Spread(now, []Broker{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}})
	replicas, leads := count(got)
	moved := 0
	for i, p := range got {
		for _, id := range p.Replicas {
			if !slices.Contains(now[i].Replicas, id) {
				moved++
			}
		}
	}
	if want := "map[1:3 2:3 3:3 4:3] map[1:1 2:1 3:1 4:1] 3"; err != nil || fmt.Sprint(replicas, leads, moved) != want {
		t.Errorf("%v: replicas, leaders and moves are %v %v %d, want %s (%v)", got, replicas, leads, moved, want, err)
	}
}

func TestEvacuateMovesOnlyWhatMustGo(t *testing.T) {
	brokers := []Broker{{1, "a"}, {2, "b"}, {4, "a"}, {5, "b"}}
	got, err := Evacuate(list([]int32{3, 1}, []int32{2, 3}, []int32{1, 2}), brokers, map[int32]int{1: 9, 2: 9, 4: 3, 5: 4})
	if want := "[{t 0 [1 5] []} {t 1 [2 4] []} {t 2 [1 2] []}]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if _, err := Evacuate(list([]int32{1, 2, 3}), brokers[:2], nil); err == nil || !strings.Contains(err.Error(), "t-0 has 3 replicas, and there are 2 brokers") {
		t.Errorf("too few brokers: %v", err)
	}
}

func TestLast(t *testing.T) {
	p := list([]int32{3, 1, 2})[0]
	if got := Last(p, 3); !slices.Equal(got.Replicas, []int32{1, 2, 3}) || !slices.Equal(p.Replicas, []int32{3, 1, 2}) {
		t.Errorf("%v of %v", got, p)
	}
	if got := Last(p, 9); !slices.Equal(got.Replicas, p.Replicas) {
		t.Errorf("%v", got)
	}
}

func TestParse(t *testing.T) {
	good := `{"version":1,"partitions":[{"topic":"b","partition":0,"replicas":[2,1],"log_dirs":["any","any"]},{"topic":"a","partition":3,"replicas":[1]}]}`
	if p, err := Parse([]byte(good)); err != nil || len(p.Partitions) != 2 || p.Partitions[0].Name() != "a-3" || !slices.Equal(p.Partitions[1].Replicas, []int32{2, 1}) {
		t.Errorf("%+v, %v", p, err)
	}
	for text, want := range map[string]string{
		`[`:                               "not a plan",
		`{"version":2}`:                   "version is 2",
		`{"version":1}`:                   "no partitions",
		`{"version":1,"partitions":[{}]}`: "without a topic",
		`{"version":1,"partitions":[{"topic":"a"}]}`:                                             "no replicas for a-0",
		`{"version":1,"partitions":[{"topic":"a","replicas":[1,1]}]}`:                            "node twice for a-0",
		`{"version":1,"partitions":[{"topic":"a","replicas":[1]},{"topic":"a","replicas":[2]}]}`: "a-0 twice",
		`{"version":1,"partitions":[{"topic":"a","replicas":[1],"log_dirs":["/data"]}]}`:         `log directory "/data"`,
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
