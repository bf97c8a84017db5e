package kit

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin"
)

var rackNames = []string{"eu-1a", "eu-1b", "eu-1c"}

// describe names a request in a fault.
func describe(r *plugin.Request) string {
	partitions := 0
	for _, t := range r.Topics {
		partitions += int(t.Partitions)
	}
	return fmt.Sprintf("group %s (%d members, %d topics, %d partitions)", r.Group, len(r.Members), len(r.Topics), partitions)
}

func topic(i, partitions int) plugin.Topic {
	return plugin.Topic{ID: [16]byte{byte(i >> 8), byte(i)}, Name: fmt.Sprintf("topic-%d", i), Partitions: int32(partitions)}
}

// uniform is a group whose members all subscribe to all topics, with nothing assigned.
func uniform(members, topics, partitions int) *plugin.Request {
	r := &plugin.Request{Group: fmt.Sprintf("uniform-%d-%d-%d", members, topics, partitions), Epoch: 1}
	var all []int
	for t := range topics {
		r.Topics = append(r.Topics, topic(t, partitions))
		all = append(all, t)
	}
	for m := range members {
		r.Members = append(r.Members, plugin.Member{ID: fmt.Sprintf("member-%02d", m), Topics: all})
	}
	return r
}

// random is a group of any kind: members with any subscriptions, racks and instance ids, topics of any size with racks and
// lag or without, and targets that may be outdated. The same seed makes the same group.
func random(seed uint64) *plugin.Request {
	rnd := rand.New(rand.NewPCG(seed, 1))
	r := &plugin.Request{Group: fmt.Sprintf("random-%d", seed), Epoch: int32(seed) + 1}
	racks, lag := rnd.IntN(2) == 0, rnd.IntN(3) == 0
	for i := range rnd.IntN(6) {
		t := topic(i, 1+rnd.IntN(20))
		for range t.Partitions {
			if racks {
				n := 1 + rnd.IntN(len(rackNames))
				first := rnd.IntN(len(rackNames))
				t.Racks = append(t.Racks, slices.Concat(rackNames[first:], rackNames[:first])[:n])
			}
			if lag {
				t.Lag = append(t.Lag, rnd.Int64N(10_000)-1)
			}
		}
		r.Topics = append(r.Topics, t)
	}
	same := rnd.IntN(2) == 0
	var topics []int
	for i := range 1 + rnd.IntN(12) {
		if i == 0 || !same {
			topics = randomTopics(rnd, len(r.Topics))
		}
		m := plugin.Member{ID: fmt.Sprintf("member-%02d-%x", i, rnd.Uint32()), Topics: topics}
		if rnd.IntN(3) == 0 {
			m.InstanceID = fmt.Sprintf("instance-%d", rnd.IntN(1000)*100+i)
		}
		if racks && rnd.IntN(4) > 0 {
			m.Rack = rackNames[rnd.IntN(len(rackNames))]
		}
		r.Members = append(r.Members, m)
	}
	if rnd.IntN(3) > 0 {
		randomTargets(rnd, r)
	}
	return r
}

func randomTopics(rnd *rand.Rand, n int) []int {
	var topics []int
	for t := range n {
		if rnd.IntN(3) > 0 {
			topics = append(topics, t)
		}
	}
	return topics
}

// randomTargets gives some partitions to members, whether they subscribe to them or not.
func randomTargets(rnd *rand.Rand, r *plugin.Request) {
	o := make(owners, len(r.Topics))
	for t := range r.Topics {
		for range r.Topics[t].Partitions {
			o[t] = append(o[t], rnd.IntN(len(r.Members)+1)-1)
		}
	}
	o.setTargets(r)
}

// largeRequests are groups of 1,000 members and 10,000 partitions, with one subscription and with many that overlap.
func largeRequests() []*plugin.Request {
	const members, topics, partitions = 1000, 100, 100
	same := uniform(members, topics, partitions)
	same.Group = "large"
	mixed := uniform(members, topics, partitions)
	mixed.Group = "large-mixed"
	rnd := rand.New(rand.NewPCG(1, 1))
	for m := range mixed.Members {
		var list []int
		for t := range topics {
			if rnd.IntN(2) == 0 {
				list = append(list, t)
			}
		}
		mixed.Members[m].Topics = list
	}
	for _, r := range []*plugin.Request{same, mixed} {
		for m := range r.Members {
			r.Members[m].ID = fmt.Sprintf("consumer-%05d-3f2a9c44-5c1e-4a7b-9d1e-6b0f8a2c7e51", m)
			r.Members[m].Rack = rackNames[m%len(rackNames)]
		}
		for t := range r.Topics {
			for p := range partitions {
				r.Topics[t].Racks = append(r.Topics[t].Racks, rackNames[p%len(rackNames):][:1])
				r.Topics[t].Lag = append(r.Topics[t].Lag, rnd.Int64N(1_000_000))
			}
		}
	}
	return []*plugin.Request{same, mixed}
}

// withMember is the group with one more member, which sorts last and has the first one's subscription.
func withMember(r *plugin.Request, id string) *plugin.Request {
	after := *r
	after.Epoch++
	after.Members = append(slices.Clone(r.Members), plugin.Member{ID: id, Topics: r.Members[0].Topics})
	return &after
}

func withoutMember(r *plugin.Request, m int) *plugin.Request {
	after := *r
	after.Epoch++
	after.Members = slices.Delete(slices.Clone(r.Members), m, m+1)
	return &after
}
