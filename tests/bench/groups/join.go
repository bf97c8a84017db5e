package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/retry"
)

const (
	// describePause is between two looks at the group: it bounds what the figure is off by, with the time of a look.
	describePause = 5 * time.Millisecond
	// targetTimeout bounds how long a target is waited for.
	targetTimeout = time.Minute
)

// join fills one group of the consumer protocol but for one member, lets it settle, and measures how long after the last
// one's join the group has a target assignment that has it: the assignor was asked, and its answer is in the log.
func (o *options) join(ctx context.Context) error {
	o.protocol, o.groups = "consumer", 1
	groups, done, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	defer done()
	others, last := groups[0][:o.members-1], groups[0][o.members-1]
	if err := o.form(ctx, [][]*member{others}); err != nil {
		return err
	}
	if _, err := o.beat(ctx, [][]*member{others}, o.duration); err != nil {
		return err
	}
	if _, err := last.awaitTarget(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := o.enter(ctx, last); err != nil {
		return err
	}
	answered := time.Since(began)
	epoch, err := last.awaitTarget(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d members, %d partitions: the join is answered after %.1f ms, the target of epoch %d is there after %.1f ms\n",
		o.members, o.partitions, float64(answered.Microseconds())/1e3, epoch, float64(time.Since(began).Microseconds())/1e3)
	return nil
}

// awaitTarget returns once the group's target is of its newest epoch.
func (m *member) awaitTarget(ctx context.Context) (epoch int32, err error) {
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	for {
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Groups = []string{m.group}
		resp, err := do[*kmsg.ConsumerGroupDescribeResponse](ctx, m, req)
		if err != nil {
			return 0, err
		}
		if len(resp.Groups) != 1 {
			return 0, fmt.Errorf("ConsumerGroupDescribe: %d groups for one", len(resp.Groups))
		}
		g := resp.Groups[0]
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return 0, fmt.Errorf("ConsumerGroupDescribe: %w", err)
		}
		if g.AssignmentEpoch == g.Epoch {
			return g.Epoch, nil
		}
		if err := retry.Pause(ctx, describePause); err != nil {
			return 0, fmt.Errorf("the target is of epoch %d, the group at %d: %w", g.AssignmentEpoch, g.Epoch, err)
		}
	}
}
