package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/localcluster"
)

func up(l *local) *cobra.Command {
	var shape localcluster.Shape
	l.network = networkAuto
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a cluster on this machine, each node a process of its own",
		Long: `Run a cluster on this machine, each node a process of its own, and return when it serves. The nodes go on
until cluster down. Brokers have the ids 1, 2, 3…, controllers 101…, groupcoords 201…, txncoords 301…,
connects 401…. The folder has what each of them is configured with (ID/node.properties), its log (ID/log) and
its data. In a folder that has a cluster, the same one goes on; flags that say how it is made cannot change it.

As root on Linux each node gets a network namespace with an address of its own, reachable from this machine
alone, so that cluster partition can cut one node off from another; --network loopback has all of them at
127.0.0.1, as it is where there are no namespaces.`,
		Example: `  cauce cluster up --data-dir data
  cauce cluster up --data-dir data --controllers 3 --brokers 3 --groupcoords 2 --base-port 19092
  cauce cluster up --data-dir data --brokers 3 --set min.insync.replicas=2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if shape.Groupcoords == 0 && !cmd.Flags().Changed("connects") {
				shape.Connects = 0
			}
			c, err := l.openOrCreate(cmd, shape)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), l.timeout)
			defer cancel()
			if err := c.Start(c.Nodes()...); err != nil {
				return err
			}
			if err := c.AwaitReady(ctx, c.Nodes()...); err != nil {
				return err
			}
			if err := c.AwaitServing(ctx); err != nil {
				return err
			}
			return l.printStatus(c)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&shape.Controllers, "controllers", 1, "controllers: 1, 3 or 5")
	flags.IntVar(&shape.Brokers, "brokers", 1, "brokers, 1 at least")
	flags.IntVar(&shape.Groupcoords, "groupcoords", 1, "coordinators of consumer groups")
	flags.IntVar(&shape.Txncoords, "txncoords", 1, "coordinators of transactions")
	flags.IntVar(&shape.Connects, "connects", 1, "Connect workers, which need a coordinator of groups")
	flags.IntVar(&shape.Racks, "racks", 0, "racks that brokers are spread over: rack-1, rack-2…")
	flags.IntVar(&shape.BasePort, "base-port", 19092, "the first of the `PORT`s that the cluster takes, one after the other")
	flags.StringArrayVar(&shape.Settings, "set", nil, "set a key of every node, as `KEY=VALUE`; may be repeated")
	flags.Var(&l.network, "network", "what nodes are joined by: loopback, or namespaces (root only), which partition can cut")
	return l.bind(cmd, 2*time.Minute)
}

// shaping are the flags of up that say what a new cluster is.
var shaping = []string{"controllers", "brokers", "groupcoords", "txncoords", "connects", "racks", "base-port", "set", "network"}

// openOrCreate takes up the cluster of the folder, if there is one and it is what the flags ask for.
func (l *local) openOrCreate(cmd *cobra.Command, shape localcluster.Shape) (*localcluster.Cluster, error) {
	if err := shape.Validate(); err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	folder, err := programs()
	if err != nil {
		return nil, err
	}
	c, err := localcluster.Open(l.dir, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return l.create(folder, shape)
	}
	if err != nil {
		return nil, err
	}
	given := slices.ContainsFunc(shaping, func(name string) bool { return cmd.Flags().Changed(name) })
	if have := c.Shape(); given && !have.Equal(shape) {
		return nil, exit.With(exit.Exists, fmt.Errorf("%s has a cluster that was made with other flags: leave them out to go on with it, or take another folder", l.dir))
	}
	return c, nil
}

// create makes a new cluster. Where there can be no namespaces and none were asked for, it says what that means.
func (l *local) create(programs string, shape localcluster.Shape) (*localcluster.Cluster, error) {
	if l.network == networkLoopback {
		return localcluster.Create(l.dir, programs, shape, false)
	}
	c, err := localcluster.Create(l.dir, programs, shape, true)
	if errors.Is(err, errors.ErrUnsupported) && l.network == networkAuto {
		fmt.Fprintf(l.s.Err, "cauce: all nodes are at 127.0.0.1, so that cluster partition has nothing to cut: %v\n", err)
		return localcluster.Create(l.dir, programs, shape, false)
	}
	return c, err
}

// networkKind is what joins the nodes of a cluster. It is a flag value.
type networkKind string

const (
	networkAuto       networkKind = "auto" // namespaces where they can be had
	networkNamespaces networkKind = "namespaces"
	networkLoopback   networkKind = "loopback"
)

// Set parses the value of --network.
func (k *networkKind) Set(s string) error {
	switch networkKind(s) {
	case networkAuto, networkNamespaces, networkLoopback:
		*k = networkKind(s)
		return nil
	}
	return fmt.Errorf("must be %s, %s or %s", networkAuto, networkNamespaces, networkLoopback)
}

func (k *networkKind) String() string { return string(*k) }

// Type names the value in help texts.
func (k *networkKind) Type() string { return "auto|namespaces|loopback" }
