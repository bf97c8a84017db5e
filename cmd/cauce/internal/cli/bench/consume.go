package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/position"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

const consumeLong = `Read records and measure throughput.

Without --follow it reads to the present end. With --latency it measures the time from when each
record was due, as cauce bench produce noted it in the value, to when it was read: run both at the
same time, with --follow, on machines whose clocks agree.

--from takes a POSITION: ` + position.Help

type consumption struct {
	session   *session.Session
	extent    extent
	from      position.Position
	partition int32
	follow    bool
	latency   bool
	maxBytes  int32
	maxWait   time.Duration
}

func consume(s *session.Session) *cobra.Command {
	c := &consumption{session: s}
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read records and measure throughput",
		Long:  consumeLong,
		Example: `  cauce bench consume load
  cauce bench consume load --follow --latency --warmup 5s --duration 35s`,
		Args:              cobra.ExactArgs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
		ValidArgsFunction: s.CompleteTopics(1),
	}
	flags := cmd.Flags()
	c.extent.bind(flags)
	flags.Var(&c.from, "from", "where to start (default beginning, with --follow end)")
	flags.Int32VarP(&c.partition, "partition", "p", -1, "read partition `N` only (-1: all)")
	flags.BoolVarP(&c.follow, "follow", "F", false, "wait for more records at the end")
	flags.BoolVar(&c.latency, "latency", false, "measure the time from when each record was due")
	flags.Int32Var(&c.maxBytes, "fetch-bytes", 50<<20, "largest answer to a fetch in `BYTES`")
	flags.DurationVar(&c.maxWait, "fetch-wait", 5*time.Second, "how long a fetch may wait for records")
	return cmd
}

func (c *consumption) run(ctx context.Context, topic string) error {
	if err := c.extent.check(); err != nil {
		return err
	}
	if c.maxBytes < 1 || c.maxWait < 10*time.Millisecond {
		return exit.Usagef("--fetch-bytes and --fetch-wait: must be at least 1 byte and 10ms")
	}
	if c.follow && !c.from.Given() {
		c.from = position.End
	}
	ranges, err := c.resolve(ctx, topic)
	if err != nil {
		return err
	}
	assigned := map[int32]kgo.Offset{}
	for p, r := range ranges {
		if c.follow || r.Start < r.End {
			assigned[p.ID] = kgo.NewOffset().At(r.Start)
		}
	}
	m := newMeter(c.latency)
	if len(assigned) == 0 {
		return print(c.session, m.result(topic, "due"))
	}
	client, err := c.session.Connect(ctx, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assigned}),
		kgo.FetchMaxBytes(c.maxBytes), kgo.FetchMaxWait(c.maxWait), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer client.Close()
	m.restart()
	stopWatching := c.extent.watch(m, c.session.Err)
	fault := c.read(ctx, client, m, ranges)
	stopWatching()
	return errors.Join(print(c.session, m.result(topic, "due")), fault)
}

func (c *consumption) resolve(ctx context.Context, topic string) (map[position.Partition]position.Range, error) {
	admin, err := c.session.Admin(ctx)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	ctx, cancel := c.session.Bounded(ctx)
	defer cancel()
	var ids []int32
	if c.partition >= 0 {
		ids = []int32{c.partition}
	}
	resolver := position.Resolver{Admin: admin}
	return resolver.Resolve(ctx, []string{topic}, ids, c.from, position.End)
}

// read counts records until all ranges are read, there are enough, the time is over, or ctx ends;
// only the last is an error.
func (c *consumption) read(parent context.Context, client *kgo.Client, m *meter, ranges map[position.Partition]position.Range) error {
	ctx, cancel := c.extent.within(parent)
	defer cancel()
	open, seen := 0, int64(0)
	for _, r := range ranges {
		if c.follow || r.Start < r.End {
			open++
		}
	}
	for open > 0 && (c.extent.records == 0 || seen < c.extent.records) {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return parent.Err()
		}
		for _, fault := range fetches.Errors() {
			return fmt.Errorf("fetch %s[%d]: %w", fault.Topic, fault.Partition, exit.Answer(fault.Err, ""))
		}
		now := time.Now()
		fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
			p := position.Partition{Topic: fetched.Topic, ID: fetched.Partition}
			for _, record := range fetched.Records {
				if c.extent.records > 0 && seen >= c.extent.records {
					return
				}
				if !record.Attrs.IsControl() {
					m.add(len(record.Key)+len(record.Value), c.age(record, now))
					seen++
				}
				if !c.follow && record.Offset == ranges[p].End-1 {
					client.PauseFetchPartitions(map[string][]int32{p.Topic: {p.ID}})
					open--
				}
			}
		})
	}
	return nil
}

// age is how long ago the record was due, or -1 when that is not asked for or not known.
func (c *consumption) age(record *kgo.Record, now time.Time) time.Duration {
	if !c.latency {
		return -1
	}
	due, ok := stamped(record.Value)
	if !ok {
		return -1
	}
	return max(now.Sub(due), 0)
}
