package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/partition"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/placement"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

func drain(s *session.Session) *cobra.Command {
	var replicas bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Have other brokers lead what a node leads, and keep what it keeps",
		Long: `Have other brokers lead what a node leads, and wait until they do: the node becomes the last among the
replicas of each partition, which is so afterwards too. With --replicas all its replicas move to other
brokers. A plan that leads back is printed (see cauce partition reassign).`,
		Example: `  cauce node drain 3 > back.json
  cauce node drain 3 --replicas --wait 1h`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil || id < 0 {
				return exit.Usagef("%q is not the id of a node", args[0])
			}
			client, err := s.Connect(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			d := drainage{session: s, client: client, node: int32(id)}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait)
			defer cancel()
			return d.run(ctx, replicas)
		},
	}
	cmd.Flags().BoolVar(&replicas, "replicas", false, "move the replicas too")
	cmd.Flags().DurationVar(&wait, "wait", 10*time.Minute, "give up when it is not done after this long")
	return cmd
}

// drainage takes a node's leaderships, and its replicas, to others.
type drainage struct {
	session *session.Session
	client  *kgo.Client
	node    int32
}

func (d *drainage) run(ctx context.Context, replicas bool) error {
	all, err := partition.Assigned(ctx, d.client)
	if err != nil {
		return err
	}
	before := slices.DeleteFunc(slices.Clone(all), func(p placement.Partition) bool { return !slices.Contains(p.Replicas, d.node) })
	wanted, err := d.plan(ctx, all, before, replicas)
	if err != nil {
		return err
	}
	changed := func(i int) bool { return !slices.Equal(wanted[i].Replicas, before[i].Replicas) }
	var moves []placement.Partition
	for i := range wanted {
		if changed(i) {
			moves = append(moves, wanted[i])
		}
	}
	if len(moves) > 0 {
		if err := partition.Reassign(ctx, d.client, moves); err != nil {
			return err
		}
	}
	if err := d.await(ctx, replicas, before); err != nil {
		return err
	}
	if alone := slices.DeleteFunc(slices.Clone(before), func(p placement.Partition) bool { return len(p.Replicas) > 1 }); !replicas && len(alone) > 0 {
		fmt.Fprintf(d.session.Err, "node %d leads on what no other node has: %d partitions, such as %s; move them with --replicas\n", d.node, len(alone), alone[0].Name())
	}
	return output.WriteJSON(d.session.Out, placement.New(before))
}

// plan is where the partitions that have a replica on the node are to be.
func (d *drainage) plan(ctx context.Context, all, has []placement.Partition, replicas bool) ([]placement.Partition, error) {
	if !replicas {
		wanted := make([]placement.Partition, len(has))
		for i, p := range has {
			wanted[i] = placement.Last(p, d.node)
		}
		return wanted, nil
	}
	brokers, err := partition.Brokers(ctx, d.client)
	if err != nil {
		return nil, err
	}
	brokers = slices.DeleteFunc(brokers, func(b placement.Broker) bool { return b.ID == d.node })
	load := map[int32]int{}
	for _, p := range all {
		for _, id := range p.Replicas {
			load[id]++
		}
	}
	return placement.Evacuate(has, brokers, load)
}

// await asks for elections, as replicas that are to lead come to be in sync, until the node has nothing left to give away.
func (d *drainage) await(ctx context.Context, replicas bool, moved []placement.Partition) error {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		left, leads, err := d.left(ctx, replicas)
		if err == nil && len(left) == 0 {
			return nil
		}
		if len(leads) > 0 {
			_, _ = partition.Elect(ctx, d.client, leads, false) // one whose other replicas are not in sync yet is asked for again
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if err == nil {
				err = fmt.Errorf("%d of %d partitions are left on node %d, such as %s", len(left), len(moved), d.node, left[0].Name())
			}
			return errors.Join(err, ctx.Err())
		}
	}
}

// left are the partitions that the node still leads, or that it still has a replica of; leads are those that it leads and could
// give away.
func (d *drainage) left(ctx context.Context, replicas bool) (left, leads []placement.Partition, err error) {
	topics, err := kadm.NewClient(d.client).ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, nil, exit.Answer(err, "")
	}
	for _, t := range topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			name := placement.Partition{Topic: p.Topic, Partition: p.Partition}
			alone := len(p.Replicas) == 1 && p.Leader == d.node
			if p.Leader == d.node && !alone || replicas && slices.Contains(p.Replicas, d.node) {
				left = append(left, name)
			}
			if p.Leader == d.node && p.Replicas[0] != d.node {
				leads = append(leads, name)
			}
		}
	}
	return left, leads, nil
}
