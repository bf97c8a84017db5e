// Command lag has a group fall behind in two ways: a consumer that is slower than the traffic, and consumers that take longer for a
// batch than max.poll.interval.ms, which are thrown out of their group again and again. It shows the lag over time and what the tools say, then
// the same with the two repairs: fewer records a poll, and a longer interval. It starts a server of its own.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/devserver"
	"github.com/cauce-stream/cauce/tests/lab/internal/watched"
	"github.com/cauce-stream/cauce/tests/retry"
)

const (
	partitions = 6
	traffic    = 40 // records a second
)

// cases are the groups, one after the other.
var cases = []struct {
	name    string
	members int
	backlog int // is there when the members come, so that their polls are full from the beginning
	pace    pace
}{
	{"slow", 1, 0, pace{most: 100, each: 50 * time.Millisecond, interval: time.Minute, fetchBytes: 1 << 10}},
	{"loop", 2, 1500, pace{most: 500, each: 30 * time.Millisecond, interval: 10 * time.Second, fetchBytes: 1 << 20}},
	{"fewer-records", 2, 1500, pace{most: 100, each: 30 * time.Millisecond, interval: 10 * time.Second, fetchBytes: 1 << 20}},
	{"longer-interval", 2, 1500, pace{most: 500, each: 30 * time.Millisecond, interval: time.Minute, fetchBytes: 1 << 20}},
}

func main() {
	length := flag.Duration("for", 90*time.Second, "how long each group runs")
	every := flag.Duration("every", 15*time.Second, "how often its lag is looked at")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *length, *every)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lag:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, length, every time.Duration) error {
	// Ten looks at the lag say how a group comes along. They lie less apart than by default, so that it is said in time, but together
	// span more than the longest batch.
	node, err := watched.Up(ctx, 3000)
	if err != nil {
		return err
	}
	defer node.Down()
	l := &lab{Node: node, length: length, every: every}
	for i, c := range cases {
		if err := l.measure(ctx, i); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// lab is the experiment under way.
type lab struct {
	*watched.Node
	length, every time.Duration
}

// measure runs a group and prints what is seen of it.
func (l *lab) measure(ctx context.Context, i int) error {
	c := cases[i]
	group, topic := "lab-"+c.name, "lab-lag-"+c.name
	fmt.Printf("\n%s: members: %d, records a poll: %d, %v for each, max.poll.interval %v; %d records wait, %d a second come\n",
		group, c.members, c.pace.most, c.pace.each, c.pace.interval, c.backlog, traffic)
	stop, err := l.fill(ctx, topic, group, c.backlog)
	if err != nil {
		return err
	}
	defer stop()
	var members []*member
	for n := range c.members {
		m, stop, err := join(l.Bootstrap, topic, group, fmt.Sprint("consumer-", n+1), c.pace)
		if err != nil {
			return err
		}
		defer stop()
		members = append(members, m)
	}
	states, err := l.watch(ctx, topic, group)
	if err != nil {
		return err
	}
	var done, left, refused int64
	for _, m := range members {
		done, left, refused = done+m.done.Load(), left+m.left.Load(), refused+m.refused.Load()
	}
	fmt.Printf("  records worked on: %d; thrown out: %d times; commits refused: %d\n  seen as: %s\n", done, left, refused, states)
	return l.why(ctx, group)
}

// why shows what the command line says of a group.
func (l *lab) why(ctx context.Context, group string) error {
	binary, err := devserver.Binary()
	if err != nil {
		return err
	}
	fmt.Printf("  $ cauce group why %s\n", group)
	out, err := exec.CommandContext(ctx, binary, "group", "why", group, "-b", l.Bootstrap).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Println("    " + line)
		}
	}
	return err
}

// fill creates a topic with records that wait for a group, and goes on writing until it is stopped.
func (l *lab) fill(ctx context.Context, topic, group string, backlog int) (stop func(), err error) {
	if _, err := l.Client.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		return nil, err
	}
	from := kadm.Offsets{}
	for p := range int32(partitions) {
		from.AddOffset(topic, p, 0, -1)
	}
	if err := l.Client.CommitAllOffsets(ctx, group, from); err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.Bootstrap), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return nil, err
	}
	record := func() *kgo.Record { return &kgo.Record{Value: []byte("lab")} }
	var waiting []*kgo.Record
	for range backlog {
		waiting = append(waiting, record())
	}
	if err := cl.ProduceSync(ctx, waiting...).FirstErr(); err != nil {
		cl.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		began, sent := time.Now(), 0
		for retry.Pause(ctx, time.Second/traffic) == nil {
			for due := int(time.Since(began).Seconds() * traffic); sent < due; sent++ {
				cl.Produce(ctx, record(), func(_ *kgo.Record, err error) {
					if err != nil && ctx.Err() == nil {
						fmt.Fprintf(os.Stderr, "lag: produce to %s: %v\n", topic, err)
					}
				})
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
		cl.Close()
	}, nil
}

// shares are the states in which a group was seen, and how often.
type shares map[string]int

func (s shares) String() string {
	all := 0
	for _, n := range s {
		all += n
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, fmt.Sprintf("%s %d %%", state, 100*s[state]/all))
	}
	return strings.Join(parts, ", ")
}

// watch prints the lag of a group again and again, and notes its states meanwhile.
func (l *lab) watch(ctx context.Context, topic, group string) (shares, error) {
	const look = 200 * time.Millisecond
	seen := shares{}
	began := time.Now()
	for next := time.Duration(0); ; {
		described, err := l.Client.DescribeGroups(ctx, group)
		if err = cmp.Or(err, described.Error()); err != nil {
			return nil, err
		}
		seen[described[group].State]++
		if time.Since(began) >= next {
			if err := l.show(ctx, topic, group, next); err != nil {
				return nil, err
			}
			if next += l.every; next > l.length {
				return seen, nil
			}
		}
		if err := retry.Pause(ctx, look); err != nil {
			return nil, err
		}
	}
}

func (l *lab) show(ctx context.Context, topic, group string, at time.Duration) error {
	lags, err := l.Client.Lag(ctx, group)
	if err = cmp.Or(err, lags.Error()); err != nil {
		return err
	}
	lag := int64(0)
	for _, one := range lags[group].Lag[topic] {
		lag += one.Lag
	}
	status, err := l.Look(ctx, group)
	if err != nil {
		return err
	}
	fmt.Printf("  %4.0f s  lag %6d  %-20s members %d  %s\n", at.Seconds(), lag, lags[group].State, len(lags[group].Members), status.Group)
	return nil
}
