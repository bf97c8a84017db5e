// Package node holds the commands under `cauce node`.
package node

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// Command returns `cauce node`.
func Command(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "node", Aliases: []string{"nodes"}, Short: "List, describe and drain nodes"}
	s.BindConnection(cmd)
	s.BindOutput(cmd)
	cmd.AddCommand(list(s), describe(s), drain(s))
	return cmd
}

// node is what metadata says of one node.
type node struct {
	ID       int32  `json:"id"`
	Address  string `json:"address"`
	Rack     string `json:"rack,omitempty"`
	State    string `json:"state"` // active, fenced
	Replicas int    `json:"replicas"`
	Leads    int    `json:"leads"`       // partitions
	Behind   int    `json:"out_of_sync"` // replicas that are not in sync

	partitions []held
}

// held is a replica that a node has.
type held struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Leader    int32  `json:"leader"` // -1: none
	InSync    bool   `json:"in_sync"`
}

// load counts what each node has.
func load(ctx context.Context, admin *kadm.Client, described *kmsg.DescribeClusterResponse) ([]node, error) {
	topics, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, exit.Answer(err, "")
	}
	var nodes []node
	for _, b := range described.Brokers {
		n := node{ID: b.NodeID, Address: net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), State: "active", partitions: []held{}}
		if b.Rack != nil {
			n.Rack = *b.Rack
		}
		if b.IsFenced {
			n.State = "fenced"
		}
		for _, t := range topics.Sorted() {
			for _, p := range t.Partitions.Sorted() {
				if slices.Contains(p.Replicas, n.ID) {
					n.add(held{Topic: t.Topic, Partition: p.Partition, Leader: p.Leader, InSync: slices.Contains(p.ISR, n.ID)})
				}
			}
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b node) int { return int(a.ID) - int(b.ID) })
	return nodes, nil
}

func (n *node) add(p held) {
	n.partitions = append(n.partitions, p)
	n.Replicas++
	if p.Leader == n.ID {
		n.Leads++
	}
	if !p.InSync {
		n.Behind++
	}
}

// fetch asks the cluster for its nodes, those that are fenced too.
func fetch(ctx context.Context, s *session.Session) ([]node, error) {
	client, err := s.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	request := kmsg.NewPtrDescribeClusterRequest()
	request.IncludeFencedBrokers = true
	described, err := request.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(described.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("describe cluster: %w", exit.Answer(err, ""))
	}
	return load(ctx, kadm.NewClient(client), described)
}

func list(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List nodes and how many partitions each one has and leads",
		Example: "  cauce node list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nodes, err := fetch(cmd.Context(), s)
			if err != nil {
				return err
			}
			return s.Print(nodes, func() *output.Table {
				table := output.NewTable(output.Right("NODE"), output.Left("ADDRESS"), output.Left("RACK"), output.Left("STATE"),
					output.Right("REPLICAS"), output.Right("LEADS"), output.Right("OUT OF SYNC"))
				for _, n := range nodes {
					table.Row(n.ID, n.Address, n.Rack, n.State, n.Replicas, n.Leads, n.Behind)
				}
				return table
			})
		},
	}
}

func describe(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "describe NODE",
		Short:   "Show a node's partitions",
		Example: "  cauce node describe 2",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil {
				return exit.Usagef("%q is not the id of a node", args[0])
			}
			nodes, err := fetch(cmd.Context(), s)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(nodes, func(n node) bool { return n.ID == int32(id) })
			if i < 0 {
				return exit.With(exit.NotFound, fmt.Errorf("the cluster has no node %d", id))
			}
			return write(s, nodes[i])
		},
	}
}

func write(s *session.Session, n node) error {
	if s.Format == output.JSON {
		return output.WriteJSON(s.Out, struct {
			node
			Partitions []held `json:"partitions"`
		}{n, n.partitions})
	}
	fields := output.NewTable(output.Left(""), output.Left(""))
	fields.Row("Node", n.ID)
	fields.Row("Address", n.Address)
	fields.Row("Rack", n.Rack)
	fields.Row("State", n.State)
	if err := fields.Write(s.Out); err != nil || len(n.partitions) == 0 {
		return err
	}
	fmt.Fprintln(s.Out)
	table := output.NewTable(output.Left("TOPIC"), output.Right("PARTITION"), output.Left("ROLE"), output.Left("IN SYNC"))
	for _, p := range n.partitions {
		role, sync := "follower", "yes"
		if p.Leader == n.ID {
			role = "leader"
		}
		if !p.InSync {
			sync = "no"
		}
		table.Row(p.Topic, p.Partition, role, sync)
	}
	return table.Write(s.Out)
}
