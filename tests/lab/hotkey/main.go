// Command hotkey measures what a key does that 40 % of all records have: to the ends of a topic's partitions, and to the lag of a group
// with a member for each of them. Then it tries two repairs: twice as many partitions, and a key that is made of several.
// It starts a server of its own.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/cauce-stream/cauce/tests/lab/internal/watched"
	"github.com/cauce-stream/cauce/tests/retry"
)

const (
	topic     = "lab-hot"
	few, many = 6, 12
	hotKey    = "MEGACORP"
	customers = 1000 // keys that share the other records
	parts     = 8    // of the key that repairs it
	// inflow is how many records a second are written, capacity how many of them a member gets done: all members of the smaller
	// group together have half as much again as they need, if the records are spread evenly.
	inflow   = 6000
	capacity = 1500
)

func main() {
	records := flag.Int("records", 100_000, "how many a run produces")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *records)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hotkey:", err)
		os.Exit(1)
	}
}

// whole gives four records in ten the same key.
func whole(n int) string {
	if n%10 < 4 {
		return hotKey
	}
	return fmt.Sprint("customer-", n%customers)
}

// split is whole with the hot key in parts.
func split(n int) string {
	key := whole(n)
	if key == hotKey {
		return fmt.Sprintf("%s-%d", key, n/10%parts)
	}
	return key
}

// cases are the runs, in order: partitions are never taken away again.
var cases = []struct {
	name       string
	partitions int
	key        func(n int) string
}{
	{hotKey, few, whole},
	{hotKey, many, whole},
	{fmt.Sprintf("%s-<n%%%d>", hotKey, parts), many, split},
}

func run(ctx context.Context, records int) error {
	// Ten looks at the lag say how a group comes along: once a second, so that a run has enough of them.
	node, err := watched.Up(ctx, 1000)
	if err != nil {
		return err
	}
	defer node.Down()
	l := &lab{Node: node, records: records, last: map[string]int32{}}
	if _, err := l.Client.CreateTopic(ctx, few, 1, nil, topic); err != nil {
		return err
	}
	for i, c := range cases {
		if err := l.measure(ctx, i); err != nil {
			return fmt.Errorf("%s, %d partitions: %w", c.name, c.partitions, err)
		}
	}
	return nil
}

// lab is the experiment under way.
type lab struct {
	*watched.Node
	records int
	last    map[string]int32 // where a key's records went
}

// measure produces to a topic that a new group reads, and prints what each partition got and how far behind its member was when
// the last record was there.
func (l *lab) measure(ctx context.Context, i int) error {
	c := cases[i]
	if err := l.grow(ctx, c.partitions); err != nil {
		return err
	}
	before, err := l.ends(ctx)
	if err != nil {
		return err
	}
	group := fmt.Sprint("lab-hot-", i)
	stop, err := l.consume(ctx, group, before)
	if err != nil {
		return err
	}
	defer stop()
	began := time.Now()
	moved, kept, err := l.produce(ctx, c.key)
	if err != nil {
		return err
	}
	took := time.Since(began)
	lag, err := l.lag(ctx, group)
	if err != nil {
		return err
	}
	status, err := l.Look(ctx, group)
	if err != nil {
		return err
	}
	after, err := l.ends(ctx)
	if err != nil {
		return err
	}
	produced := time.Now()
	if err := l.catchUp(ctx, group); err != nil {
		return err
	}
	fmt.Printf("\nkey %s, %d partitions: %d records in %.1f s, a group of %d members\n", c.name, c.partitions, l.records, took.Seconds(), c.partitions)
	if moved+kept > 0 {
		fmt.Printf("of %d keys that were there before %d go to another partition now\n", moved+kept, moved)
	}
	fmt.Printf("%-10s %8s %7s %8s  %s\n", "partition", "records", "share", "lag", "status")
	got := make([]int64, len(after))
	for p := range got {
		got[p] = after[p] - before[p]
		fmt.Printf("%-10d %8d %5.1f %% %8d  %s\n", p, got[p], 100*float64(got[p])/float64(l.records), lag[p], cmp.Or(status.Partitions[int32(p)], "-"))
	}
	fmt.Printf("the fullest has %.1f times the average; lag %d in all, gone after %.1f s; the group is %s\n",
		float64(slices.Max(got))*float64(len(got))/float64(l.records), sum(lag), time.Since(produced).Seconds(), status.Group)
	return nil
}

func sum(of []int64) (total int64) {
	for _, n := range of {
		total += n
	}
	return total
}

// grow adds partitions, and waits until they are led.
func (l *lab) grow(ctx context.Context, partitions int) error {
	ends, err := l.ends(ctx)
	if err != nil || len(ends) == partitions {
		return err
	}
	answers, err := l.Client.UpdatePartitions(ctx, partitions, topic)
	if err = cmp.Or(err, answers.Error()); err != nil {
		return err
	}
	return retry.Until(ctx, settleTimeout, func(ctx context.Context) error {
		ends, err := l.ends(ctx)
		if err == nil && len(ends) != partitions {
			err = fmt.Errorf("%d partitions are there", len(ends))
		}
		return err
	})
}

// ends are the end offsets of the partitions.
func (l *lab) ends(ctx context.Context) ([]int64, error) {
	listed, err := l.Client.ListEndOffsets(ctx, topic)
	if err = cmp.Or(err, listed.Error()); err != nil {
		return nil, err
	}
	ends := make([]int64, len(listed[topic]))
	for p, o := range listed[topic] {
		ends[p] = o.Offset
	}
	return ends, nil
}

// lag is how many records of each partition the group has not committed.
func (l *lab) lag(ctx context.Context, group string) ([]int64, error) {
	lags, err := l.Client.Lag(ctx, group)
	if err = cmp.Or(err, lags.Error()); err != nil {
		return nil, err
	}
	of := lags[group].Lag[topic]
	lag := make([]int64, len(of))
	for p, one := range of {
		lag[p] = one.Lag
	}
	return lag, nil
}
