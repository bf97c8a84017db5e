// Command rebalance measures what a rebalance costs a member that stays: how long it processes nothing when another
// member leaves and when it comes back, with partitions assigned eagerly, cooperatively, by the server, and to static members.
// A third member takes a second for each of its polls, so that it is late to every rebalance.
// It starts a server of its own unless it is given one.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/devserver"
	"github.com/cauce-stream/cauce/tests/retry"
)

// topic is another in each run.
var topic = fmt.Sprint("lab-rebalance-", time.Now().UnixMilli())

const (
	partitions = 6
	members    = 3
	quick      = 10 * time.Millisecond // for what a poll gives
	slow       = time.Second
	// settled is how long a group is left alone before it is looked at, and afterwards.
	settled = 8 * time.Second
	// away is how long a static member is gone; its session lasts longer.
	away = 2 * time.Second
)

// cases are the ways in which the group shares its partitions.
var cases = []struct {
	name   string
	static bool
	opts   []kgo.Opt
}{
	{"range (eager)", false, []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}},
	{"cooperative-sticky", false, []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}},
	{"group.protocol=consumer", false, []kgo.Opt{kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}},
	{"range, group.instance.id", true, []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rebalance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	bootstrap := flag.String("bootstrap", "", "HOST:PORT of a server; empty starts bin/cauce dev")
	flag.Parse()
	if *bootstrap == "" {
		dir, err := os.MkdirTemp("", "lab")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		server, err := devserver.Start(ctx, devserver.Options{DataDir: dir})
		if err != nil {
			return err
		}
		defer server.Kill()
		*bootstrap = server.Bootstrap
	}
	stop, err := produce(ctx, *bootstrap)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%-26s %-28s %14s %12s\n", "the group's members", "what happens", "longest pause", "rebalances")
	for i, c := range cases {
		if err := measure(ctx, *bootstrap, fmt.Sprintf("%s-%d", topic, i), i); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// produce writes 100 records a second to each partition until stopped.
func produce(ctx context.Context, bootstrap string) (stop func(), err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		cl.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			for p := range int32(partitions) {
				cl.Produce(ctx, &kgo.Record{Partition: p, Value: []byte("lab")}, nil)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
		cl.Close()
	}, nil
}

// measure has a member of a new group leave and come back, and prints what the others see of it.
func measure(ctx context.Context, bootstrap, group string, i int) error {
	c := cases[i]
	var all []*member
	defer func() {
		for _, m := range all {
			m.close()
		}
	}()
	for id := range members {
		work := quick
		if id == members-1 {
			work = slow
		}
		m, err := join(bootstrap, group, id, c.static, work, c.opts)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	if err := retry.Pause(ctx, settled); err != nil {
		return err
	}
	stays := all[1]
	steps := []struct {
		what string
		do   func() error
	}{
		{"a member leaves", func() error { all[0].close(); return nil }},
		{"a member joins", func() (err error) { all[0], err = join(bootstrap, group, 0, c.static, quick, c.opts); return err }},
	}
	if c.static {
		steps = steps[1:]
		steps[0].what = fmt.Sprintf("a member restarts within %v", away)
		all[0].close() // without leaving: a static member is expected back
	}
	for _, step := range steps {
		stays.reset()
		if c.static {
			if err := retry.Pause(ctx, away); err != nil {
				return err
			}
		}
		if err := step.do(); err != nil {
			return err
		}
		if err := retry.Pause(ctx, settled); err != nil {
			return err
		}
		longest, rebalances := stays.seen()
		fmt.Printf("%-26s %-28s %11d ms %12d\n", c.name, step.what, longest.Milliseconds(), rebalances)
	}
	return nil
}
