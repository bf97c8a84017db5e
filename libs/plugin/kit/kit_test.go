package kit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin"
)

// turns deals the partitions of each topic in turn to its subscribers: right in all that is required.
func turns(_ context.Context, r *plugin.Request) (plugin.Response, error) {
	answer := make(plugin.Response, len(r.Members))
	for t := range r.Topics {
		var subscribers []int
		for m := range r.Members {
			if _, subscribes := slices.BinarySearch(r.Members[m].Topics, t); subscribes {
				subscribers = append(subscribers, m)
				answer[m] = append(answer[m], plugin.TopicPartitions{Topic: t})
			}
		}
		for p := range r.Topics[t].Partitions {
			if len(subscribers) > 0 {
				last := answer[subscribers[int(p)%len(subscribers)]]
				list := &last[len(last)-1].Partitions
				*list = append(*list, p)
			}
		}
	}
	return answer, nil
}

// spoiled changes good answers.
func spoiled(change func(*plugin.Request, plugin.Response) plugin.Response) Assign {
	return func(ctx context.Context, r *plugin.Request) (plugin.Response, error) {
		answer, err := turns(ctx, r)
		return change(r, answer), err
	}
}

func TestAGoodAssignorPasses(t *testing.T) {
	results := Check(t.Context(), turns, nil)
	if len(results) != len(Names()) {
		t.Errorf("%d results", len(results))
	}
	for _, result := range results {
		if result.Fault != nil {
			t.Errorf("%s: %v", result.Name, result.Fault)
		}
	}
}

func TestFaultsAreFound(t *testing.T) {
	tests := []struct {
		check, want string
		assign      Assign
	}{
		{"correct", "nobody gets partition", spoiled(func(_ *plugin.Request, a plugin.Response) plugin.Response { return a[:len(a)/2] })},
		{"correct", "goes to both", spoiled(func(_ *plugin.Request, a plugin.Response) plugin.Response {
			return append(a[:len(a)-1], slices.Concat(a...))
		})},
		{"correct", "does not subscribe", spoiled(func(r *plugin.Request, a plugin.Response) plugin.Response {
			slices.Reverse(a)
			return a
		})},
		{"correct", "which does not exist", spoiled(func(_ *plugin.Request, a plugin.Response) plugin.Response {
			for _, partitions := range a {
				for i := range partitions {
					partitions[i].Partitions = append(partitions[i].Partitions, 1000)
				}
			}
			return a
		})},
		{"correct", "out of ideas", func(context.Context, *plugin.Request) (plugin.Response, error) {
			return nil, errors.New("out of ideas")
		}},
		{"deterministic", "at the second time", shuffled},
		{"settled", "although nothing had changed", mirrored},
		{"balanced", "more than another", firstTakesAll},
		{"large", "took", slow},
	}
	for _, test := range tests {
		skip := slices.DeleteFunc(Names(), func(name string) bool { return name == test.check })
		results := Check(t.Context(), test.assign, skip)
		if len(results) != 1 || results[0].Fault == nil || !strings.Contains(results[0].Fault.Error(), test.want) {
			t.Errorf("%s: %+v, want %q", test.check, results, test.want)
		}
	}
}

// shuffled deals to a random member first.
func shuffled(ctx context.Context, r *plugin.Request) (plugin.Response, error) {
	return rotated(ctx, r, rand.IntN(100))
}

// mirrored deals in another order when something was assigned before.
func mirrored(ctx context.Context, r *plugin.Request) (plugin.Response, error) {
	n := 0
	for _, m := range r.Members {
		for _, p := range m.Target {
			n += len(p.Partitions)
		}
	}
	return rotated(ctx, r, min(n, 1))
}

// rotated gives each member's share to one further on, in groups with one subscription.
func rotated(ctx context.Context, r *plugin.Request, by int) (plugin.Response, error) {
	answer, err := turns(ctx, r)
	if len(r.Members) > 0 && sameSubscription(r) {
		by %= len(answer)
		answer = slices.Concat(answer[by:], answer[:by])
	}
	return answer, err
}

func sameSubscription(r *plugin.Request) bool {
	return !slices.ContainsFunc(r.Members, func(m plugin.Member) bool { return !slices.Equal(m.Topics, r.Members[0].Topics) })
}

func firstTakesAll(ctx context.Context, r *plugin.Request) (plugin.Response, error) {
	answer, err := turns(ctx, r)
	return plugin.Response{slices.Concat(answer...)}, err
}

func slow(ctx context.Context, r *plugin.Request) (plugin.Response, error) {
	timer := time.NewTimer(TimeLimit + 100*time.Millisecond)
	defer timer.Stop()
	<-timer.C
	return turns(ctx, r)
}
