package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var franzBalancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// franz is a member that runs twmb/franz-go.
func franz(ctx context.Context, s Spec, _ string, commands <-chan command) error {
	told := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			sayPartitions(s.Name, event, topics[s.Topic])
		}
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.Bootstrap), kgo.ConsumerGroup(s.Group), kgo.ConsumeTopics(s.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(time.Duration(s.SessionMs) * time.Millisecond), kgo.HeartbeatInterval(heartbeatMs * time.Millisecond),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(told("assigned")), kgo.OnPartitionsRevoked(told("revoked")), kgo.OnPartitionsLost(told("lost")),
	}
	if s.Instance != "-" {
		opts = append(opts, kgo.InstanceID(s.Instance))
	}
	if s.Protocol == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
	} else {
		opts = append(opts, kgo.Balancers(franzBalancers[s.Strategy]))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		poll, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		fetches := cl.PollFetches(poll)
		cancel()
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				return fmt.Errorf("fetch: %w", e.Err)
			}
		}
		fetches.EachRecord(func(r *kgo.Record) { sayRecord(s.Name, r.Partition, r.Offset) })
		select {
		case c := <-commands:
			if c.verb == "leave" {
				return nil
			}
			if err := franzDo(ctx, cl, s, c); err != nil {
				return err
			}
		default:
		}
	}
}

func franzDo(ctx context.Context, cl *kgo.Client, s Spec, c command) error {
	if c.verb == "seek" {
		cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.Topic: {c.partition: {Epoch: -1, Offset: c.offset}}})
		say(s.Name, "sought")
		return nil
	}
	if err := cl.CommitUncommittedOffsets(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	say(s.Name, "committed")
	return nil
}
