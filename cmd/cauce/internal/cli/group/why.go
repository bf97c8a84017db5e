package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group/diagnosis"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group/snapshot"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/txn/ledger"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
)

const (
	// between lies well above 5 s, the default of auto.commit.interval.ms: a member that is well commits meanwhile.
	between    = 10 * time.Second
	betweenMin = 100 * time.Millisecond
	// retries are few: that a coordinator does not serve is what this command is to find out.
	retries = 2
	// mostTold bounds what a table tells of a group with thousands of partitions. JSON has it all.
	mostTold = 50
)

func why(s *session.Session) *cobra.Command {
	interval := between
	cmd := &cobra.Command{
		Use:   "why GROUP",
		Short: "Say what holds a group up",
		Long: `Look at a group twice and say what holds it up: a coordinator that does not serve, no members, a rebalance and
who it waits for, members that were thrown out or leave again and again, and why they say they do, partitions
without an owner, lag that grows while nothing is committed, offsets out of range, a transaction that holds the last stable offset, with what ends it.

  OK        it consumes
  WARNING   something is not as it should be, or it falls behind
  STALLED   partitions are not consumed, and will not be by waiting
  HUNG_TXN  an open transaction holds the last stable offset: consumers of committed records cannot go on`,
		Example: `  cauce group why orders-app
  cauce group why orders-app --interval 30s -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if interval < betweenMin {
				return exit.Usagef("--interval %s: must be %s or more", interval, betweenMin)
			}
			return explain(cmd.Context(), s, args[0], interval)
		},
		ValidArgsFunction: s.CompleteGroups(1),
	}
	cmd.Flags().DurationVar(&interval, "interval", between, "look for the second time after `DURATION`; more than the members' auto.commit.interval.ms")
	return cmd
}

func explain(ctx context.Context, s *session.Session, id string, interval time.Duration) error {
	client, err := s.Connect(ctx, kgo.RequestRetries(retries))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	before, err := sample(ctx, s, admin, id)
	if report, ok := diagnosis.OfFault(id, err); ok {
		return printReport(s, report)
	}
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(interval):
	}
	after, err := sample(ctx, s, admin, id)
	if report, ok := diagnosis.OfFault(id, err); ok {
		return printReport(s, report)
	}
	if err != nil {
		return err
	}
	if held := diagnosis.Held(before, after); len(held) > 0 {
		if after.Holding, err = holding(ctx, s, client, held); err != nil {
			fmt.Fprintln(s.Err, "cauce: who holds the last stable offset:", err)
		}
	}
	if after.Left, err = departures(ctx, s, client, id); err != nil {
		fmt.Fprintln(s.Err, "cauce: who left the group:", err)
	}
	return printReport(s, diagnosis.Of(before, after, interval))
}

// departures are the members that left the group of late, as far as its coordinator tells.
func departures(ctx context.Context, s *session.Session, client *kgo.Client, id string) ([]groupapi.Departure, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{id}
	resp, err := req.RequestWith(ctx, client)
	if err != nil || len(resp.Groups) != 1 {
		return nil, err
	}
	return groupapi.Departures(&resp.Groups[0].UnknownTags)
}

// holding are the transactions that partitions have open. What could be found out is there also with an error.
func holding(ctx context.Context, s *session.Session, client *kgo.Client, partitions kadm.TopicsSet) ([]diagnosis.Holder, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	open, err := ledger.OpenOn(ctx, kadm.NewClient(client), partitions)
	if len(open) == 0 {
		return nil, err
	}
	known, fault := ledger.ByProducer(ctx, client, open)
	if fault != nil {
		return nil, errors.Join(err, fault) // without the coordinators' answers everything would seem to hang
	}
	return diagnosis.Holders(open, known, time.Now()), err
}

func sample(ctx context.Context, s *session.Session, admin *kadm.Client, id string) (diagnosis.Sample, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	groups, faults := snapshot.Describe(ctx, admin, id)
	if err := faults[id]; err != nil {
		return diagnosis.Sample{}, fault(id, err, "")
	}
	offsets, err := snapshot.Offsets(ctx, admin, groups[0])
	if err != nil {
		return diagnosis.Sample{}, fault(id, fmt.Errorf("offsets: %w", err), "")
	}
	return diagnosis.Sample{Group: groups[0], Offsets: offsets}, nil
}

func printReport(s *session.Session, report diagnosis.Report) error {
	if s.Format == output.JSON {
		return output.WriteJSON(s.Out, report)
	}
	if _, err := fmt.Fprintf(s.Out, "%s is %s\n\n", report.Group, report.Judgement); err != nil {
		return err
	}
	table := output.NewTable(output.Left("JUDGEMENT"), output.Left("ABOUT"), output.Left("WHAT"))
	for i, finding := range report.Findings {
		if i == mostTold {
			table.Row("", "", fmt.Sprintf("and %d more", len(report.Findings)-mostTold))
			break
		}
		table.Row(finding.Judgement, finding.About, finding.What)
	}
	return table.Write(s.Out)
}
