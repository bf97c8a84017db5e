// Package cluster holds the commands under `cauce cluster`.
package cluster

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/roles"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// Command returns `cauce cluster`.
func Command(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Look at the cluster as a whole, or run one on this machine",
		Long: `Look at the cluster as a whole, or run one on this machine: each node is a process of its own, which
can be stopped, killed, frozen and cut off on purpose. All but describe take the cluster's folder
(--data-dir), and nodes by their ids.`,
	}
	s.BindOutput(cmd)
	l := &local{s: s}
	cmd.AddCommand(describe(s), up(l), status(l), stop(l), start(l), kill(l), pause(l), resume(l),
		partition(l), heal(l), down(l))
	return cmd
}

type cluster struct {
	ID            string    `json:"cluster_id"`
	Controller    int32     `json:"controller_id"` // -1: none
	Nodes         []node    `json:"nodes"`
	FeaturesEpoch int64     `json:"features_epoch"` // -1: unknown
	Features      []feature `json:"features"`
	Partitions    health    `json:"partitions"`
}

// health counts partitions.
type health struct {
	All      int `json:"all"`
	Offline  int `json:"offline"`          // without a leader
	Under    int `json:"under_replicated"` // with fewer replicas in sync than they have
	BelowMin int `json:"below_min_isr"`    // with fewer in sync than min.insync.replicas
}

type node struct {
	ID     int32  `json:"id"`
	Host   string `json:"host"`
	Port   int32  `json:"port"`
	Rack   string `json:"rack,omitempty"`
	Fenced bool   `json:"fenced"`
	// Roles are unknown, and absent, of a cluster that does not tell them.
	Roles    []string `json:"roles,omitempty"`
	Replicas int      `json:"replicas"`
	Leads    int      `json:"leads"` // partitions
}

type feature struct {
	Name         string `json:"name"`
	Finalized    int16  `json:"finalized"` // 0: not in use
	SupportedMin int16  `json:"supported_min"`
	SupportedMax int16  `json:"supported_max"`
}

func describe(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "describe",
		Short:   "Show the cluster's id, nodes, partitions in trouble, controller and features",
		Example: "  cauce cluster describe -b localhost:9092",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := s.Connect(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			ctx, cancel := s.Bounded(cmd.Context())
			defer cancel()
			c, err := load(ctx, client)
			if err != nil {
				return fmt.Errorf("describe cluster: %w", err)
			}
			if s.Format == output.JSON {
				return output.WriteJSON(s.Out, c)
			}
			return c.write(s.Out)
		},
	}
	s.BindConnection(cmd)
	return cmd
}

func load(ctx context.Context, client *kgo.Client) (cluster, error) {
	request := kmsg.NewPtrDescribeClusterRequest()
	request.IncludeFencedBrokers = true
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return cluster{}, exit.Answer(err, "")
	}
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		message := ""
		if response.ErrorMessage != nil {
			message = *response.ErrorMessage
		}
		return cluster{}, exit.Answer(err, message)
	}
	c := cluster{ID: response.ClusterID, Controller: response.ControllerID, Nodes: []node{}, FeaturesEpoch: -1, Features: []feature{}}
	for _, broker := range response.Brokers {
		n := node{ID: broker.NodeID, Host: broker.Host, Port: broker.Port, Fenced: broker.IsFenced, Roles: roles.Of(broker)}
		if broker.Rack != nil {
			n.Rack = *broker.Rack
		}
		c.Nodes = append(c.Nodes, n)
	}
	slices.SortFunc(c.Nodes, func(a, b node) int { return cmp.Compare(a.ID, b.ID) })

	admin := kadm.NewClient(client)
	if err := c.count(ctx, admin); err != nil {
		return cluster{}, err
	}
	versions, err := admin.ApiVersions(ctx)
	if err != nil {
		return cluster{}, err
	}
	for _, id := range slices.Sorted(maps.Keys(versions)) {
		if answer := versions[id]; answer.Err == nil {
			c.FeaturesEpoch, c.Features = features(answer.Raw())
			break
		}
	}
	return c, nil
}

// count looks at every partition.
func (c *cluster) count(ctx context.Context, admin *kadm.Client) error {
	topics, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return exit.Answer(err, "")
	}
	needed, err := minISR(ctx, admin, topics)
	if err != nil {
		return err
	}
	at := map[int32]*node{}
	for i := range c.Nodes {
		at[c.Nodes[i].ID] = &c.Nodes[i]
	}
	for _, t := range topics {
		for _, p := range t.Partitions {
			c.Partitions.add(p, needed[t.Topic])
			for _, id := range p.Replicas {
				if n := at[id]; n != nil {
					n.Replicas++
				}
			}
			if n := at[p.Leader]; n != nil {
				n.Leads++
			}
		}
	}
	return nil
}

func (h *health) add(p kadm.PartitionDetail, needed int) {
	h.All++
	if p.Leader < 0 {
		h.Offline++
	}
	if len(p.ISR) < len(p.Replicas) {
		h.Under++
	}
	if len(p.ISR) < min(needed, len(p.Replicas)) || p.Leader < 0 {
		h.BelowMin++
	}
}

// minISR is min.insync.replicas of each topic.
func minISR(ctx context.Context, admin *kadm.Client, topics kadm.TopicDetails) (map[string]int, error) {
	needed := map[string]int{}
	if len(topics) == 0 {
		return needed, nil
	}
	configs, err := admin.DescribeTopicConfigs(ctx, topics.Names()...)
	if err != nil {
		return nil, exit.Answer(err, "")
	}
	for _, topic := range configs {
		for _, c := range topic.Configs {
			if c.Key == "min.insync.replicas" {
				needed[topic.Name], _ = strconv.Atoi(c.MaybeValue()) // 0, which asks for nothing, if it is no number
			}
		}
	}
	return needed, nil
}

func features(answer *kmsg.ApiVersionsResponse) (epoch int64, all []feature) {
	all = []feature{}
	for _, supported := range answer.SupportedFeatures {
		all = append(all, feature{Name: supported.Name, SupportedMin: supported.MinVersion, SupportedMax: supported.MaxVersion})
	}
	for _, finalized := range answer.FinalizedFeatures {
		i := slices.IndexFunc(all, func(f feature) bool { return f.Name == finalized.Name })
		if i < 0 {
			all = append(all, feature{Name: finalized.Name})
			i = len(all) - 1
		}
		all[i].Finalized = finalized.MaxVersionLevel
	}
	slices.SortFunc(all, func(a, b feature) int { return cmp.Compare(a.Name, b.Name) })
	return answer.FinalizedFeaturesEpoch, all
}

func (c cluster) write(w io.Writer) error {
	fields := output.NewTable(output.Left(""), output.Left(""))
	fields.Row("Cluster", c.ID)
	if c.Controller >= 0 {
		fields.Row("Controller", c.Controller)
	} else {
		fields.Row("Controller", "")
	}
	if err := fields.Write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	counts := output.NewTable(output.Right("PARTITIONS"), output.Right("OFFLINE"), output.Right("UNDER-REPLICATED"), output.Right("BELOW MIN ISR"))
	counts.Row(c.Partitions.All, c.Partitions.Offline, c.Partitions.Under, c.Partitions.BelowMin)
	if err := counts.Write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	nodes := output.NewTable(output.Right("NODE"), output.Left("ADDRESS"), output.Left("RACK"), output.Left("ROLES"), output.Left("STATE"),
		output.Right("REPLICAS"), output.Right("LEADS"))
	for _, n := range c.Nodes {
		state := "active"
		if n.Fenced {
			state = "fenced"
		}
		nodes.Row(n.ID, net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port))), n.Rack, strings.Join(n.Roles, ","), state, n.Replicas, n.Leads)
	}
	if err := nodes.Write(w); err != nil || len(c.Features) == 0 {
		return err
	}
	fmt.Fprintln(w)
	table := output.NewTable(output.Left("FEATURE"), output.Right("FINALIZED"), output.Left("SUPPORTED"))
	for _, f := range c.Features {
		table.Row(f.Name, f.Finalized, fmt.Sprintf("%d-%d", f.SupportedMin, f.SupportedMax))
	}
	return table.Write(w)
}
