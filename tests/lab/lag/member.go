package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/retry"
)

// pace is how a member works.
type pace struct {
	most       int           // records a poll, as max.poll.records
	each       time.Duration // for a record
	interval   time.Duration // max.poll.interval.ms: who does not poll for longer leaves its group
	fetchBytes int32         // of a partition at a time, as max.partition.fetch.bytes: who fetches much stays with one for long
}

// member is a consumer as Java's are: it commits what a poll gave it before the next one, takes part in a rebalance only when it
// polls, and leaves its group by itself when it has not polled for too long. franz-go has no such limit.
type member struct {
	cl    *kgo.Client
	group string
	pace  pace

	left, refused atomic.Int64 // how often it left, and how many of its commits were refused then
	done          atomic.Int64 // records that it worked on, some again and again
}

// join has a member consume until it is stopped.
func join(bootstrap, topic, group, client string, p pace) (m *member, stop func(), err error) {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.ClientID(client), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Balancers(kgo.RangeBalancer()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.RebalanceTimeout(p.interval), kgo.FetchMaxWait(100*time.Millisecond), kgo.FetchMaxPartitionBytes(p.fetchBytes),
	)
	if err != nil {
		return nil, nil, err
	}
	m = &member{cl: cl, group: group, pace: p}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.run(ctx) })
	return m, func() {
		cancel()
		running.Wait()
		cl.CloseAllowingRebalance()
	}, nil
}

func (m *member) run(ctx context.Context) {
	for ctx.Err() == nil {
		fetches := m.cl.PollRecords(ctx, m.pace.most)
		n := fetches.NumRecords()
		if n > 0 {
			if err := m.work(ctx, time.Duration(n)*m.pace.each); err != nil {
				m.failed(ctx, "leave", err)
				return
			}
			m.done.Add(int64(n))
			m.commit(ctx, fetches.Records())
		}
		m.cl.AllowRebalance()
	}
}

// work takes its time, and leaves the group when that is more than it may be.
func (m *member) work(ctx context.Context, takes time.Duration) error {
	if err := retry.Pause(ctx, min(takes, m.pace.interval)); err != nil {
		return err
	}
	if takes <= m.pace.interval {
		return nil
	}
	if err := m.leave(ctx); err != nil {
		return err
	}
	return retry.Pause(ctx, takes-m.pace.interval)
}

// leave says what Java's clients say then. The client does not know of it, and finds out with its next heartbeat or commit.
func (m *member) leave(ctx context.Context) error {
	id, _ := m.cl.GroupMetadata()
	who := kmsg.NewLeaveGroupRequestMember()
	who.MemberID, who.Reason = id, kmsg.StringPtr("consumer poll timeout has expired.")
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.Members = m.group, []kmsg.LeaveGroupRequestMember{who}
	resp, err := req.RequestWith(ctx, m.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return err
	}
	m.left.Add(1)
	return nil
}

// commit is refused when the member is none any more: what it worked on comes again.
func (m *member) commit(ctx context.Context, records []*kgo.Record) {
	err := m.cl.CommitRecords(ctx, records...)
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.RebalanceInProgress):
		m.refused.Add(1)
	default:
		m.failed(ctx, "commit", err)
	}
}

func (m *member) failed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil { // the end cuts off what is under way
		fmt.Fprintf(os.Stderr, "lag: %s: %s: %v\n", m.group, what, err)
	}
}
