package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/retry"
)

const settleTimeout = time.Minute

// produce writes the records of a run at the inflow, and says how many of the keys that were seen before went where they went before.
func (l *lab) produce(ctx context.Context, key func(n int) string) (moved, kept int, err error) {
	// A client of its own knows of all partitions. One that runs hears of new ones with its next metadata.
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.Bootstrap), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	var mu sync.Mutex
	went, failed := map[string]int32{}, error(nil)
	const tick = 10 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	began := time.Now()
	for n := 0; n < l.records; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
		for due := int(time.Since(began).Seconds() * inflow); n < min(due, l.records); n++ {
			cl.Produce(ctx, &kgo.Record{Key: []byte(key(n)), Value: []byte("lab")}, func(r *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				went[string(r.Key)], failed = r.Partition, cmp.Or(failed, err)
			})
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return 0, 0, err
	}
	mu.Lock()
	defer mu.Unlock()
	for key, partition := range went {
		switch before, ok := l.last[key]; {
		case ok && before == partition:
			kept++
		case ok:
			moved++
		}
		l.last[key] = partition
	}
	return moved, kept, failed
}

// consume has a group of as many members as partitions read what comes from now on, each as quickly as it can.
func (l *lab) consume(ctx context.Context, group string, ends []int64) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	stop = func() {
		cancel()
		running.Wait()
	}
	at := kadm.Offsets{}
	for p, end := range ends {
		at.AddOffset(topic, int32(p), end, -1)
	}
	if err := l.Client.CommitAllOffsets(ctx, group, at); err != nil {
		cancel()
		return nil, err
	}
	for range ends {
		cl, err := kgo.NewClient(kgo.SeedBrokers(l.Bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
			kgo.Balancers(kgo.RangeBalancer()), kgo.AutoCommitInterval(500*time.Millisecond))
		if err != nil {
			stop()
			return nil, err
		}
		running.Go(func() {
			defer cl.Close()
			work(ctx, cl)
		})
	}
	err = retry.Until(ctx, settleTimeout, func(ctx context.Context) error {
		described, err := l.Client.DescribeGroups(ctx, group)
		if err = cmp.Or(err, described.Error()); err != nil {
			return err
		}
		if g := described[group]; g.State != "Stable" || len(g.Members) != len(ends) {
			return fmt.Errorf("%s is %s with %d members", group, g.State, len(g.Members))
		}
		return nil
	})
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// work takes no more records than a member gets done.
func work(ctx context.Context, cl *kgo.Client) {
	const tick = 100 * time.Millisecond
	most := capacity * int(tick) / int(time.Second)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		cl.PollRecords(ctx, most)
	}
}

// catchUp waits until nothing is left to consume.
func (l *lab) catchUp(ctx context.Context, group string) error {
	return retry.Until(ctx, settleTimeout, func(ctx context.Context) error {
		lag, err := l.lag(ctx, group)
		if err == nil && sum(lag) > 0 {
			err = errors.New("records wait")
		}
		return err
	})
}
