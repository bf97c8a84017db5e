package partition

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/placement"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type reassigning struct {
	session                       *session.Session
	plan                          string
	toBrokers                     string
	topics                        []string
	execute, verify, cancel, list bool
	throttle                      int64
	keepThrottle                  bool
}

func reassign(s *session.Session) *cobra.Command {
	r := &reassigning{session: s}
	cmd := &cobra.Command{
		Use:   "reassign",
		Short: "Move partitions to other nodes",
		Long: `Move partitions to other nodes. Plans are JSON as kafka-reassign-partitions has it.

With --to-brokers and --topics a plan is proposed and printed: brokers get as many replicas as each other, and as few as
possible move. --execute begins what a plan says, and prints the plan that leads back; --verify tells how far it is, and
takes throttles off once it is done; --cancel goes back.`,
		Example: `  cauce partition reassign --topics orders --to-brokers 1,2,3 > plan.json
  cauce partition reassign --plan plan.json --execute --throttle 50000000
  cauce partition reassign --plan plan.json --verify
  cauce partition reassign --list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&r.plan, "plan", "", "the plan's `FILE`, - for stdin")
	flags.StringVar(&r.toBrokers, "to-brokers", "", "propose a plan that uses the brokers `ID,…`")
	flags.StringSliceVar(&r.topics, "topics", nil, "the topics that the proposal is for, `TOPIC,…`")
	flags.BoolVar(&r.execute, "execute", false, "begin what the plan says")
	flags.BoolVar(&r.verify, "verify", false, "tell how far the plan is")
	flags.BoolVar(&r.cancel, "cancel", false, "have the plan's partitions go back to where they were")
	flags.BoolVar(&r.list, "list", false, "list all reassignments under way")
	flags.Int64Var(&r.throttle, "throttle", 0, "with --execute: replicate with at most `BYTES` a second on each broker")
	flags.BoolVar(&r.keepThrottle, "keep-throttle", false, "with --verify and --cancel: leave the throttles as they are")
	cmd.MarkFlagsMutuallyExclusive("execute", "verify", "cancel", "list")
	cmd.MarkFlagsMutuallyExclusive("plan", "to-brokers")
	return cmd
}

func (r *reassigning) check() error {
	switch planned := r.plan != "" || r.toBrokers != ""; {
	case r.throttle < 0 || r.throttle > 0 && !r.execute:
		return exit.Usagef("--throttle is a positive number of bytes and goes with --execute")
	case (r.toBrokers != "") != (len(r.topics) > 0):
		return exit.Usagef("--to-brokers and --topics go together")
	case r.list && planned:
		return exit.Usagef("--list lists all reassignments and takes no plan")
	case !r.list && !planned:
		return exit.Usagef("give a plan with --plan, or have one proposed with --to-brokers and --topics")
	case r.plan != "" && !r.execute && !r.verify && !r.cancel:
		return exit.Usagef("say what to do with the plan: --execute, --verify or --cancel")
	case r.toBrokers != "" && (r.verify || r.cancel):
		return exit.Usagef("--verify and --cancel need the plan that was executed: --plan FILE")
	}
	return nil
}

func (r *reassigning) run(ctx context.Context) error {
	if err := r.check(); err != nil {
		return err
	}
	client, err := r.session.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := r.session.Bounded(ctx)
	defer cancel()
	if r.list {
		return r.printUnderWay(ctx, client)
	}
	plan, err := r.readPlan(ctx, client)
	if err != nil {
		return err
	}
	switch {
	case r.execute:
		return r.begin(ctx, client, plan)
	case r.verify:
		return r.tell(ctx, client, plan)
	case r.cancel:
		return r.goBack(ctx, client, plan)
	}
	return writePlan(r.session.Out, plan)
}

// readPlan reads the plan, or makes one.
func (r *reassigning) readPlan(ctx context.Context, client *kgo.Client) (placement.Plan, error) {
	if r.toBrokers != "" {
		return r.propose(ctx, client)
	}
	read := func() ([]byte, error) { return os.ReadFile(r.plan) }
	if r.plan == "-" {
		read = func() ([]byte, error) { return io.ReadAll(r.session.In) }
	}
	data, err := read()
	if err != nil {
		return placement.Plan{}, err
	}
	plan, err := placement.Parse(data)
	if err != nil {
		return plan, exit.With(exit.Usage, fmt.Errorf("%s: %w", r.plan, err))
	}
	return plan, nil
}

func (r *reassigning) propose(ctx context.Context, client *kgo.Client) (placement.Plan, error) {
	wanted, err := parseIDs(r.toBrokers)
	if err != nil {
		return placement.Plan{}, exit.Usagef("--to-brokers: %w", err)
	}
	brokers, err := Brokers(ctx, client)
	if err != nil {
		return placement.Plan{}, err
	}
	for _, id := range wanted {
		if !slices.ContainsFunc(brokers, func(b placement.Broker) bool { return b.ID == id }) {
			return placement.Plan{}, exit.With(exit.NotFound, fmt.Errorf("the cluster has no broker %d", id))
		}
	}
	brokers = slices.DeleteFunc(brokers, func(b placement.Broker) bool { return !slices.Contains(wanted, b.ID) })
	now, err := Assigned(ctx, client, r.topics...)
	if err != nil {
		return placement.Plan{}, err
	}
	proposed, err := placement.Spread(now, brokers)
	return placement.New(proposed), err
}

func writePlan(w io.Writer, plan placement.Plan) error {
	data, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

// planned are the plan's partitions as they are now.
func planned(ctx context.Context, client *kgo.Client, plan placement.Plan) (map[string]placement.Partition, error) {
	topics := map[string]bool{}
	for _, p := range plan.Partitions {
		topics[p.Topic] = true
	}
	assigned, err := Assigned(ctx, client, slices.Sorted(maps.Keys(topics))...)
	if err != nil {
		return nil, err
	}
	now := map[string]placement.Partition{}
	for _, p := range assigned {
		now[p.Name()] = p
	}
	for _, p := range plan.Partitions {
		if _, ok := now[p.Name()]; !ok {
			return nil, exit.With(exit.NotFound, fmt.Errorf("there is no partition %s", p.Name()))
		}
	}
	return now, nil
}

func (r *reassigning) begin(ctx context.Context, client *kgo.Client, plan placement.Plan) error {
	now, err := planned(ctx, client, plan)
	if err != nil {
		return err
	}
	if r.throttle > 0 {
		if err := setThrottles(ctx, client, throttlesOf(plan, now), r.throttle); err != nil {
			return fmt.Errorf("throttles: %w", err)
		}
	}
	if err := Reassign(ctx, client, plan.Partitions); err != nil {
		return err
	}
	var before []placement.Partition
	for _, p := range plan.Partitions {
		before = append(before, now[p.Name()])
	}
	if r.session.Format == output.Tabular {
		fmt.Fprintf(r.session.Err, "begun for %d partitions; the plan that leads back follows\n", len(before))
	}
	return writePlan(r.session.Out, placement.New(before))
}

// progress is how far the plan is for one partition.
type progress struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	State     string  `json:"state"` // complete, under way, different
	Replicas  []int32 `json:"replicas"`
	Wanted    []int32 `json:"wanted"`
}

// Words for progress.State.
const (
	complete  = "complete"
	underWay  = "under way"
	different = "different" // nothing is under way, and the replicas are others than the plan's
)

func (r *reassigning) tell(ctx context.Context, client *kgo.Client, plan placement.Plan) error {
	now, err := planned(ctx, client, plan)
	if err != nil {
		return err
	}
	under, err := Under(ctx, client)
	if err != nil {
		return err
	}
	all := []progress{}
	for _, p := range plan.Partitions {
		state := progress{Topic: p.Topic, Partition: p.Partition, State: different, Replicas: now[p.Name()].Replicas, Wanted: p.Replicas}
		if _, ok := under[p.Name()]; ok {
			state.State = underWay
		} else if slices.Equal(state.Replicas, p.Replicas) {
			state.State = complete
		}
		all = append(all, state)
	}
	if len(under) == 0 && !r.keepThrottle {
		if err := clearThrottles(ctx, client, plan); err != nil {
			return fmt.Errorf("throttles: %w", err)
		}
	}
	return r.session.Print(all, func() *output.Table {
		table := output.NewTable(output.Left("TOPIC"), output.Right("PARTITION"), output.Left("STATE"), output.Left("REPLICAS"), output.Left("WANTED"))
		for _, p := range all {
			table.Row(p.Topic, p.Partition, p.State, words(p.Replicas), words(p.Wanted))
		}
		return table
	})
}

func (r *reassigning) goBack(ctx context.Context, client *kgo.Client, plan placement.Plan) error {
	under, err := Under(ctx, client)
	if err != nil {
		return err
	}
	var back []placement.Partition
	for _, p := range plan.Partitions {
		if _, ok := under[p.Name()]; ok {
			back = append(back, placement.Partition{Topic: p.Topic, Partition: p.Partition})
		}
	}
	if len(back) > 0 {
		err = Reassign(ctx, client, back)
	}
	if err == nil && !r.keepThrottle {
		err = clearThrottles(ctx, client, plan)
	}
	if err != nil {
		return err
	}
	cancelled := make([]string, len(back))
	for i, p := range back {
		cancelled[i] = p.Name()
	}
	return r.session.Print(cancelled, func() *output.Table {
		table := output.NewTable(output.Left("CANCELLED"))
		for _, name := range cancelled {
			table.Row(name)
		}
		return table
	})
}

func (r *reassigning) printUnderWay(ctx context.Context, client *kgo.Client) error {
	under, err := Under(ctx, client)
	if err != nil {
		return err
	}
	all := []Reassignment{}
	for _, name := range slices.Sorted(maps.Keys(under)) {
		all = append(all, under[name])
	}
	return r.session.Print(all, func() *output.Table {
		table := output.NewTable(output.Left("TOPIC"), output.Right("PARTITION"), output.Left("REPLICAS"), output.Left("ADDING"), output.Left("REMOVING"))
		for _, u := range all {
			table.Row(u.Topic, u.Partition, words(u.Replicas), words(u.Adding), words(u.Removing))
		}
		return table
	})
}

func words(ids []int32) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.Itoa(int(id))
	}
	return strings.Join(texts, ",")
}
