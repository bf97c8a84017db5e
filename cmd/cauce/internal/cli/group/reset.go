package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group/snapshot"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/position"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type move struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed_offset"` // before; -1: none
	Offset    int64  `json:"offset"`
	Result    string `json:"result"` // planned, reset
}

type resetting struct {
	session   *session.Session
	scope     scope
	allTopics bool
	execute   bool
	export    bool

	group    string
	strategy strategy
	admin    *kadm.Client
}

func reset(s *session.Session) *cobra.Command {
	r := &resetting{session: s}
	cmd := &cobra.Command{
		Use:   "reset GROUP",
		Short: "Move the committed offsets of a group without members",
		Long: `Move the committed offsets of a group without members. Without --execute it only shows what would change.
A group that does not exist is created by its offsets. What lies before or after the records that there are
becomes the start or the end.`,
		Example: `  cauce group reset orders-app --topic orders --to-earliest
  cauce group reset orders-app --topic orders:0,3 --shift-by -100 --execute
  cauce group reset orders-app --all-topics --to-datetime 2026-01-31T12:00:00Z --execute
  cauce group reset orders-app --all-topics --to-current --export > offsets.csv`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if r.strategy, err = strategyOf(cmd.Flags(), time.Now()); err != nil {
				return err
			}
			r.group = args[0]
			return r.run(cmd.Context())
		},
		ValidArgsFunction: s.CompleteGroups(1),
	}
	flags := cmd.Flags()
	flags.Var(&r.scope, "topic", "reset this topic, or these partitions of it; may be repeated")
	flags.BoolVar(&r.allTopics, "all-topics", false, "reset all topics that the group has committed offsets of")
	bindStrategies(flags)
	flags.BoolVar(&r.execute, "execute", false, "do it")
	flags.BoolVar(&r.export, "export", false, "print the plan as the CSV that --from-file reads")
	return cmd
}

func (r *resetting) check() error {
	named, file := len(r.scope.topics) > 0, r.strategy.name == fromFile
	switch {
	case file && (named || r.allTopics):
		return exit.Usagef("--%s says which partitions: leave --topic and --all-topics out", fromFile)
	case named && r.allTopics:
		return exit.Usagef("--topic and --all-topics exclude each other")
	case !file && !named && !r.allTopics:
		return exit.Usagef("say of which topics: --topic TOPIC[:P,…] or --all-topics")
	case r.execute && r.export:
		return exit.Usagef("--export prints a plan, --execute carries it out: give one of them")
	}
	return nil
}

func (r *resetting) run(ctx context.Context) error {
	if err := r.check(); err != nil {
		return err
	}
	wanted := make(map[position.Partition]int64)
	if r.strategy.name == fromFile {
		var err error
		if wanted, err = readPlan(r.strategy.path, r.group); err != nil {
			return err
		}
		for _, p := range sorted(slices.Collect(maps.Keys(wanted))) {
			r.scope.add(p.Topic, []int32{p.ID})
		}
	}
	admin, err := r.session.Admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	r.admin = admin
	ctx, cancel := r.session.Bounded(ctx)
	defer cancel()

	exists, err := r.idle(ctx)
	if err != nil {
		return err
	}
	committed := make(kadm.OffsetResponses)
	if exists {
		if committed, err = admin.FetchOffsets(ctx, r.group); err != nil {
			return fault(r.group, err, "")
		}
	}
	moves, err := r.plan(ctx, committed, wanted)
	if err != nil {
		return err
	}
	var faults error
	if r.execute {
		moves, faults = r.commit(ctx, moves)
	}
	return errors.Join(r.print(moves), faults)
}

// idle checks that nobody would be disturbed, and says whether the group exists.
func (r *resetting) idle(ctx context.Context) (bool, error) {
	groups, faults := snapshot.Describe(ctx, r.admin, r.group)
	switch err := faults[r.group]; {
	case err == nil:
	case errors.Is(err, kerr.GroupIDNotFound) && !r.allTopics:
		fmt.Fprintf(r.session.Err, "group %q is new\n", r.group)
		return false, nil
	default:
		return false, fault(r.group, err, "")
	}
	if members := groups[0].Members; len(members) > 0 {
		return false, fmt.Errorf("group %q is %s and has members (%s): stop them first, they would go on from where they are",
			r.group, groups[0].State, clients(members))
	}
	return true, nil
}

// clients names the clients of members, as far as that fits a sentence.
func clients(members []snapshot.Member) string {
	const most = 3
	var names []string
	for i, m := range members {
		if i == most {
			names = append(names, "…")
			break
		}
		names = append(names, m.ClientID+" at "+m.Host)
	}
	return strings.Join(names, ", ")
}

func (r *resetting) plan(ctx context.Context, committed kadm.OffsetResponses, wanted map[position.Partition]int64) ([]move, error) {
	if r.allTopics {
		for _, o := range committed.Sorted() {
			if o.At >= 0 {
				r.scope.add(o.Topic, []int32{o.Partition})
			}
		}
	}
	partitions, err := r.scope.partitions(ctx, r.admin)
	if err != nil || len(partitions) == 0 {
		return []move{}, err
	}
	topics := r.scope.names()
	starts, err := r.admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("start offsets: %w", exit.Answer(err, ""))
	}
	ends, err := r.admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("end offsets: %w", exit.Answer(err, ""))
	}
	var timed kadm.ListedOffsets
	if r.strategy.timed() {
		if timed, err = r.admin.ListOffsetsAfterMilli(ctx, r.strategy.n, topics...); err != nil {
			return nil, fmt.Errorf("offsets by time: %w", exit.Answer(err, ""))
		}
	}
	var moves []move
	var faults []error
	for _, p := range partitions {
		at := place{committed: -1, wanted: wanted[p]}
		if o, ok := committed.Lookup(p.Topic, p.ID); ok && o.Err == nil {
			at.committed = o.At
		}
		err := errors.Join(take(starts, p, &at.start), take(ends, p, &at.end))
		if r.strategy.timed() {
			err = errors.Join(err, take(timed, p, &at.wanted))
		}
		var offset int64
		var note string
		if err == nil {
			offset, note, err = r.strategy.offset(at)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", p, err))
			continue
		}
		if note != "" {
			fmt.Fprintf(r.session.Err, "%s: %s\n", p, note)
		}
		moves = append(moves, move{p.Topic, p.ID, at.committed, offset, "planned"})
	}
	return moves, errors.Join(faults...)
}

// take takes one offset from a list.
func take(offsets kadm.ListedOffsets, p position.Partition, offset *int64) error {
	found, ok := offsets.Lookup(p.Topic, p.ID)
	if !ok {
		return errors.New("the cluster did not tell the offsets of this partition")
	}
	*offset = found.Offset
	return exit.Answer(found.Err, "")
}

// commit writes the offsets as a client without a membership, which a group with members refuses.
func (r *resetting) commit(ctx context.Context, moves []move) ([]move, error) {
	offsets := make(kadm.Offsets)
	for _, m := range moves {
		offsets.Add(kadm.Offset{Topic: m.Topic, Partition: m.Partition, At: m.Offset, LeaderEpoch: -1})
	}
	answers, err := r.admin.CommitOffsets(ctx, r.group, offsets)
	if err != nil {
		return nil, fault(r.group, err, "")
	}
	done := []move{}
	var faults []error
	for _, m := range moves {
		answer, ok := answers.Lookup(m.Topic, m.Partition)
		if !ok {
			answer.Err = errors.New("the cluster did not answer for this partition")
		}
		if err := answer.Err; err != nil {
			message := ""
			if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.RebalanceInProgress) {
				message = "members have joined meanwhile: stop them first"
			}
			faults = append(faults, fmt.Errorf("group %q, %s[%d]: %w", r.group, m.Topic, m.Partition, exit.Answer(err, message)))
			continue
		}
		m.Result = "reset"
		done = append(done, m)
	}
	return done, errors.Join(faults...)
}

func (r *resetting) print(moves []move) error {
	if r.export {
		return writePlan(r.session.Out, moves)
	}
	err := r.session.Print(append([]move{}, moves...), func() *output.Table {
		table := output.NewTable(output.Left("TOPIC"), output.Right("PARTITION"), output.Right("COMMITTED"), output.Right("OFFSET"), output.Left("RESULT"))
		for _, m := range moves {
			table.Row(m.Topic, m.Partition, known(m.Committed), m.Offset, m.Result)
		}
		return table
	})
	if !r.execute {
		_, told := fmt.Fprintln(r.session.Err, "nothing was changed: --execute does it")
		return cmp.Or(err, told)
	}
	return err
}
