// Package consume holds `cauce consume`.
package consume

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/format"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/position"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/recordjson"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

const long = `Read records and print them, one a line unless --format says otherwise.

Without --follow everything up to the present end is printed and the command ends. With --follow
it starts at the end, unless --from says otherwise, and waits for more until it is interrupted,
has --count records, or nothing came for --idle.

--from and --to take a POSITION: ` + position.Help + `

--format takes kcat's directives:

` + format.Help

const example = `  cauce consume orders
  cauce consume orders --follow --format '%t[%p]@%o %k: %v\n'
  cauce consume orders --from -10
  cauce consume orders --from @-1h --to @-30m -o json
  cauce consume orders --follow --from end --count 1 --idle 30s`

type consumption struct {
	session  *session.Session
	ids      []string
	from, to position.Position
	count    int64
	follow   bool
	idle     time.Duration
	template string
	null     string
	isolated string
}

// Command returns `cauce consume`.
func Command(s *session.Session) *cobra.Command {
	c := &consumption{session: s}
	cmd := &cobra.Command{
		Use:               "consume TOPIC…",
		Short:             "Read records",
		Long:              long,
		Example:           example,
		Args:              cobra.MinimumNArgs(1),
		RunE:              func(cmd *cobra.Command, topics []string) error { return c.run(cmd.Context(), topics) },
		ValidArgsFunction: s.CompleteTopics(0),
	}
	s.BindConnection(cmd)
	s.BindOutput(cmd)
	flags := cmd.Flags()
	flags.StringSliceVarP(&c.ids, "partition", "p", nil, "read the partitions `N,N-M,…` only")
	flags.Var(&c.from, "from", "where to start (default beginning, with --follow end)")
	flags.Var(&c.to, "to", "where to stop (default end); not with --follow")
	flags.Int64VarP(&c.count, "count", "n", 0, "stop after `N` records")
	flags.BoolVarP(&c.follow, "follow", "F", false, "wait for more records at the end")
	flags.DurationVar(&c.idle, "idle", 0, "with --follow: stop when nothing came for this long; exit code 4 when --count is not reached")
	flags.StringVarP(&c.template, "format", "f", `%v\n`, "print each record by this `TEMPLATE`")
	flags.StringVarP(&c.null, "null", "Z", "", "print a null key, value or header as this `TEXT`")
	flags.StringVar(&c.isolated, "isolation", "read_uncommitted", "read_uncommitted or read_committed: `LEVEL` of transactional reads")
	return cmd
}

func (c *consumption) run(ctx context.Context, topics []string) error {
	ids, err := parsePartitions(c.ids)
	if err != nil {
		return err
	}
	write, err := c.printer()
	if err != nil {
		return err
	}
	isolation, err := c.isolation()
	if err != nil {
		return err
	}
	if c.follow && c.to.Given() {
		return exit.Usagef("--to: cannot be combined with --follow")
	}
	if c.count < 0 {
		return exit.Usagef("--count %d: must be positive", c.count)
	}
	if c.follow && !c.from.Given() {
		c.from = position.End
	}
	if !c.to.Given() {
		c.to = position.End
	}
	slices.Sort(topics)
	topics = slices.Compact(topics)
	ranges, err := c.resolve(ctx, topics, ids, isolation)
	if err != nil {
		return err
	}
	assigned := assignment(ranges, c.follow)
	if len(assigned) == 0 {
		return nil
	}
	client, err := c.session.Connect(ctx, kgo.ConsumePartitions(assigned), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer client.Close()
	out := bufio.NewWriterSize(c.session.Out, 1<<16)
	reader := &reader{consumption: c, client: client, ranges: ranges, out: out, write: write}
	return errors.Join(reader.run(ctx), out.Flush())
}

func (c *consumption) resolve(ctx context.Context, topics []string, ids []int32, isolation kgo.IsolationLevel) (map[position.Partition]position.Range, error) {
	admin, err := c.session.Admin(ctx)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	ctx, cancel := c.session.Bounded(ctx)
	defer cancel()
	resolver := position.Resolver{Admin: admin, Committed: isolation == kgo.ReadCommitted()}
	return resolver.Resolve(ctx, topics, ids, c.from, c.to)
}

// assignment leaves out the partitions that hold nothing to read.
func assignment(ranges map[position.Partition]position.Range, follow bool) map[string]map[int32]kgo.Offset {
	assigned := make(map[string]map[int32]kgo.Offset)
	for p, r := range ranges {
		if !follow && r.Start >= r.End {
			continue
		}
		if assigned[p.Topic] == nil {
			assigned[p.Topic] = make(map[int32]kgo.Offset)
		}
		assigned[p.Topic][p.ID] = kgo.NewOffset().At(r.Start)
	}
	return assigned
}

func (c *consumption) isolation() (kgo.IsolationLevel, error) {
	switch strings.TrimPrefix(c.isolated, "read_") {
	case "uncommitted":
		return kgo.ReadUncommitted(), nil
	case "committed":
		return kgo.ReadCommitted(), nil
	}
	return kgo.IsolationLevel{}, exit.Usagef("--isolation %q: must be read_uncommitted or read_committed", c.isolated)
}

// printer returns how to append a record to the output.
func (c *consumption) printer() (func([]byte, *kgo.Record) []byte, error) {
	if c.session.Format == output.JSON {
		return recordjson.Append, nil
	}
	compiled, err := format.Parse(c.template, c.null)
	if err != nil {
		return nil, exit.Usagef("--format: %w", err)
	}
	return compiled.Append, nil
}

// parsePartitions reads partition numbers and ranges of them.
func parsePartitions(texts []string) ([]int32, error) {
	var ids []int32
	for _, text := range texts {
		first, last, ranged := strings.Cut(text, "-")
		low, err := strconv.ParseInt(first, 10, 32)
		high := low
		if ranged && err == nil {
			high, err = strconv.ParseInt(last, 10, 32)
		}
		if err != nil || low < 0 || high < low || high-low > 100_000 {
			return nil, exit.Usagef("--partition %q: must be a number or a range like 0-3", text)
		}
		for id := low; id <= high; id++ {
			ids = append(ids, int32(id))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
