// Package ranges gives each member a range of each topic's partitions, as Apache Kafka's range assignor does (KIP-848):
// topics with the same number of partitions and the same subscribers are co-partitioned.
package ranges

import (
	"cmp"
	"context"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin"
)

// Assignor is the range assignor. It does not look at what members have; static members keep their ranges over restarts
// since they are ordered by their instance ids, before dynamic ones.
type Assignor struct{}

// Info names it as Kafka's clients do.
func (Assignor) Info() plugin.Info {
	return plugin.Info{Name: "range", Version: "1.0.0", Doc: "Gives each member a range of each topic's partitions, the same one of topics of the same size."}
}

// Assign divides each topic by the number of its subscribers; the first of them get one partition more where it does not
// come out even.
func (Assignor) Assign(_ context.Context, r *plugin.Request) (plugin.Response, error) {
	subscribers := make([]int, len(r.Topics))
	for _, m := range r.Members {
		for _, t := range m.Topics {
			subscribers[t]++
		}
	}
	answer := make(plugin.Response, len(r.Members))
	served := make([]int, len(r.Topics)) // subscribers that have their range
	next := make([]int32, len(r.Topics))
	for _, m := range inOrder(r.Members) {
		for _, t := range r.Members[m].Topics {
			count, of := int(r.Topics[t].Partitions), subscribers[t]
			size := count / of
			if served[t] < count%of {
				size++
			}
			served[t]++
			if size == 0 {
				continue
			}
			numbers := make([]int32, size)
			for i := range numbers {
				numbers[i] = next[t] + int32(i)
			}
			next[t] += int32(size)
			answer[m] = append(answer[m], plugin.TopicPartitions{Topic: t, Partitions: numbers})
		}
	}
	return answer, nil
}

// inOrder puts static members first, by instance id, then dynamic ones by member id.
func inOrder(members []plugin.Member) []int {
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := members[a], members[b]
		switch {
		case x.InstanceID != "" && y.InstanceID != "":
			return cmp.Compare(x.InstanceID, y.InstanceID)
		case x.InstanceID != "":
			return -1
		case y.InstanceID != "":
			return 1
		}
		return cmp.Compare(x.ID, y.ID)
	})
	return order
}
