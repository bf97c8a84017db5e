package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/retry"
)

// member is a consumer that notes when it processes nothing.
type member struct {
	cl    *kgo.Client
	close func() // ends it; a member that is not static leaves its group

	mu         sync.Mutex
	last       time.Time // when it last processed records
	longest    time.Duration
	generation int32
	rebalances int
}

// join starts a member that takes some time for what each poll gives it, as Java's do between two calls of poll: it takes part in
// a rebalance only then.
func join(bootstrap, group string, id int, static bool, work time.Duration, opts []kgo.Opt) (*member, error) {
	m := &member{last: time.Now(), generation: -1}
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.BlockRebalanceOnPoll(),
	}, opts...)
	if static {
		opts = append(opts, kgo.InstanceID(fmt.Sprint("instance-", id)))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	m.cl = cl
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if fetches := cl.PollFetches(ctx); fetches.NumRecords() > 0 {
				m.processed(time.Now())
				_ = retry.Pause(ctx, work) // cut short at the end
			}
			cl.AllowRebalance()
		}
	})
	m.close = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		cl.CloseAllowingRebalance()
	})
	return m, nil
}

func (m *member) processed(now time.Time) {
	_, generation := m.cl.GroupMetadata()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.longest = max(m.longest, now.Sub(m.last))
	m.last = now
	if generation != m.generation {
		m.generation = generation
		m.rebalances++
	}
}

// reset begins a measurement.
func (m *member) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.longest, m.rebalances = 0, 0
}

// seen is the longest time without records since reset, and in how many new generations of the group there were any.
func (m *member) seen() (longest time.Duration, rebalances int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.longest, time.Since(m.last)), m.rebalances
}
