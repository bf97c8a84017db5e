package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/tests/measure"
	"github.com/cauce-stream/cauce/tests/retry"
)

// retryPause is before a request that could not be served yet is tried again.
const retryPause = 100 * time.Millisecond

// prepare creates the topic, finds the groups' coordinators, and makes the members, which have not joined yet. Members of a
// group have different connections, and so have groups of one batch.
func (o *options) prepare(ctx context.Context) (members [][]*member, done func(), err error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.bootstrap))
	if err != nil {
		return nil, nil, err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	if created, err := admin.CreateTopic(ctx, int32(o.partitions), 1, nil, topic); err != nil && !errors.Is(created.Err, kerr.TopicAlreadyExists) {
		return nil, nil, err
	}
	topics, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	if n := len(topics[topic].Partitions); n != o.partitions {
		return nil, nil, fmt.Errorf("topic %s has %d partitions, not %d: delete it first", topic, n, o.partitions)
	}
	pools := make([]*client.Pool, o.connections)
	for i := range pools {
		pools[i] = client.New(client.Config{ClientID: "bench-groups", RequestTimeout: 2 * time.Minute})
	}
	done = func() {
		for _, p := range pools {
			p.Close()
		}
	}
	run := time.Now().UnixMilli()
	for g := range o.groups {
		name := fmt.Sprintf("bench-%s-%d-%d", o.protocol, run, g)
		address, err := coordinator(ctx, admin, name)
		if err != nil {
			done()
			return nil, nil, err
		}
		var group []*member
		for i := range o.members {
			group = append(group, &member{
				pool: pools[(g*o.members+i)%o.connections], address: address, group: name,
				topicID: topics[topic].ID, partition: int32(i % o.partitions),
			})
		}
		members = append(members, group)
	}
	return members, done, nil
}

// coordinator is the address of a group's coordinator. The first to ask may have to wait for the topic of them.
func coordinator(ctx context.Context, admin *kadm.Client, group string) (string, error) {
	for {
		found := admin.FindGroupCoordinators(ctx, group)[group]
		if found.Err == nil {
			return fmt.Sprintf("%s:%d", found.Host, found.Port), nil
		}
		if !kerr.IsRetriable(found.Err) {
			return "", fmt.Errorf("the coordinator of %s: %w", group, found.Err)
		}
		if err := retry.Pause(ctx, retryPause); err != nil {
			return "", err
		}
	}
}

// load forms the groups, and measures their heartbeats and commits.
func (o *options) load(ctx context.Context) error {
	groups, done, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	defer done()
	began := time.Now()
	if err := o.form(ctx, groups); err != nil {
		return err
	}
	fmt.Printf("%d members in %d groups have joined after %.1f s\n", o.groups*o.members, o.groups, time.Since(began).Seconds())
	if _, err := o.beat(ctx, groups, min(o.duration, 10*time.Second)); err != nil { // warm-up
		return err
	}
	before, err := measure.CPU(o.pid)
	if err != nil {
		return err
	}
	took, err := o.beat(ctx, groups, o.duration)
	if err != nil {
		return err
	}
	after, err := measure.CPU(o.pid)
	if err != nil {
		return err
	}
	fmt.Printf("%-10s %-12s %s\n", "protocol", "request", measure.Title())
	for kind, name := range []string{"heartbeat", "commit"} {
		took[kind].Print(fmt.Sprintf("%-10s %-12s", o.protocol, name), o.duration)
	}
	if o.pid != 0 {
		fmt.Printf("server: %.2f cores\n", (after-before)/o.duration.Seconds())
	}
	return nil
}

// form has the groups join. Those of the classic protocol do as many at a time as have connections of their own: a
// JoinGroup that waits holds up what is behind it.
func (o *options) form(ctx context.Context, groups [][]*member) error {
	atOnce := len(groups)
	if o.protocol == "classic" {
		atOnce = o.connections / o.members
	}
	for batch := range slices.Chunk(groups, atOnce) {
		var joining sync.WaitGroup
		failed := make(chan error, atOnce*o.members)
		for _, group := range batch {
			for _, m := range group {
				joining.Go(func() { failed <- o.enter(ctx, m) })
			}
		}
		joining.Wait()
		close(failed)
		for err := range failed {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *options) enter(ctx context.Context, m *member) error {
	for {
		var err error
		if o.protocol == "classic" {
			err = m.joinClassic(ctx, o.members)
		} else {
			err = m.joinConsumer(ctx)
		}
		if err == nil || !kerr.IsRetriable(err) {
			return err
		}
		if err := retry.Pause(ctx, retryPause); err != nil {
			return err
		}
	}
}

// beat has each member send a heartbeat and a commit whenever one is due, for a while.
func (o *options) beat(ctx context.Context, groups [][]*member, length time.Duration) ([2]*measure.Sample, error) {
	samples := [2]*measure.Sample{{}, {}}
	start := time.Now()
	end := start.Add(length)
	var beating sync.WaitGroup
	for _, group := range groups {
		for _, m := range group {
			due := [2]time.Time{start.Add(rand.N(o.heartbeat)), start.Add(rand.N(o.commit))}
			beating.Go(func() { o.beatOne(ctx, m, due, end, samples) })
		}
	}
	beating.Wait()
	return samples, ctx.Err()
}

func (o *options) beatOne(ctx context.Context, m *member, due [2]time.Time, end time.Time, samples [2]*measure.Sample) {
	every := [2]time.Duration{o.heartbeat, o.commit}
	for {
		kind := 0
		if due[1].Before(due[0]) {
			kind = 1
		}
		if !due[kind].Before(end) || retry.Pause(ctx, time.Until(due[kind])) != nil {
			return
		}
		var err error
		switch {
		case kind == 1:
			err = m.commit(ctx)
		case o.protocol == "classic":
			err = m.heartbeatClassic(ctx)
		default:
			err = m.heartbeatConsumer(ctx, false)
		}
		samples[kind].Add(time.Since(due[kind]), err)
		due[kind] = due[kind].Add(every[kind])
	}
}
