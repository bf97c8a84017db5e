package cluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/localcluster"
)

// local is what the commands on a cluster of this machine share.
type local struct {
	s       *session.Session
	dir     string
	timeout time.Duration
	network networkKind
}

// bind gives cmd the flags that all of them have. timeout is what the work may take.
func (l *local) bind(cmd *cobra.Command, timeout time.Duration) *cobra.Command {
	cmd.Flags().StringVar(&l.dir, "data-dir", "", "the cluster's `DIR` (required)")
	_ = cmd.MarkFlagRequired("data-dir") // fails only for a flag that is not there
	cmd.Flags().DurationVar(&l.timeout, "timeout", timeout, "give up when it is not done after this long")
	return cmd
}

// programs is the folder of this program, which has the services' beside it.
func programs() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return "", err
	}
	return filepath.Dir(program), nil
}

func (l *local) open() (*localcluster.Cluster, error) {
	folder, err := programs()
	if err != nil {
		return nil, err
	}
	return localcluster.Open(l.dir, folder)
}

// nodeStatus is one node of `cluster status`.
type nodeStatus struct {
	ID        int32              `json:"id"`
	Roles     []string           `json:"roles"`
	Bootstrap string             `json:"bootstrap"` // empty for a controller
	Admin     string             `json:"admin"`
	REST      string             `json:"rest,omitempty"` // of a Connect worker
	PID       int                `json:"pid"`            // 0: none
	State     localcluster.State `json:"state"`
	Log       string             `json:"log"`
}

func (l *local) printStatus(c *localcluster.Cluster) error {
	document := struct {
		Nodes []nodeStatus       `json:"nodes"`
		Cuts  []localcluster.Cut `json:"cuts,omitempty"` // ways on which nothing gets through
	}{Nodes: []nodeStatus{}}
	var err error
	if document.Cuts, err = c.Cuts(); err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		state, pid, err := c.Process(n)
		if err != nil {
			return err
		}
		document.Nodes = append(document.Nodes, nodeStatus{
			ID: n.ID, Roles: []string{n.Role}, Bootstrap: n.Kafka, Admin: n.Admin, REST: n.REST, PID: pid, State: state, Log: c.LogFile(n),
		})
	}
	slices.SortFunc(document.Nodes, func(a, b nodeStatus) int { return cmp.Compare(a.ID, b.ID) })
	return l.s.Print(document, func() *output.Table {
		table := output.NewTable(output.Right("NODE"), output.Left("ROLE"), output.Left("STATE"), output.Right("PID"),
			output.Left("BOOTSTRAP"), output.Left("ADMIN"), output.Left("REST"), output.Left("CUT OFF FROM"))
		for _, n := range document.Nodes {
			pid := ""
			if n.PID > 0 {
				pid = strconv.Itoa(n.PID)
			}
			table.Row(n.ID, n.Roles[0], n.State, pid, n.Bootstrap, n.Admin, n.REST, unreachable(document.Cuts, n.ID))
		}
		return table
	})
}

// unreachable words where a node's packets do not get to.
func unreachable(cuts []localcluster.Cut, id int32) string {
	var others []string
	for _, cut := range cuts {
		if cut.From == id {
			others = append(others, strconv.Itoa(int(cut.To)))
		}
	}
	return strings.Join(others, ",")
}

func status(l *local) *cobra.Command {
	return l.bind(&cobra.Command{
		Use:     "status",
		Short:   "Show the nodes, processes and ports of a cluster of this machine",
		Example: "  cauce cluster status --data-dir data",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := l.open()
			if err != nil {
				return err
			}
			return l.printStatus(c)
		},
	}, time.Minute)
}

// onNode makes a command that does one thing to each node it is given.
func (l *local) onNode(use, short string, work func(context.Context, *localcluster.Cluster, localcluster.Node) error) *cobra.Command {
	return l.bind(&cobra.Command{
		Use:     use + " NODE…",
		Short:   short,
		Example: "  cauce cluster " + use + " 2 --data-dir data",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := l.open()
			if err != nil {
				return err
			}
			nodes, err := find(c, args)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), l.timeout)
			defer cancel()
			for _, n := range nodes {
				if err := work(ctx, c, n); err != nil {
					return err
				}
			}
			return nil
		},
	}, time.Minute)
}

// find reads node ids.
func find(c *localcluster.Cluster, ids []string) ([]localcluster.Node, error) {
	var nodes []localcluster.Node
	for _, text := range ids {
		id, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, exit.Usagef("%q is not the id of a node", text)
		}
		n, ok := c.Node(int32(id))
		if !ok {
			return nil, exit.With(exit.NotFound, fmt.Errorf("the cluster has no node %d", id))
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func stop(l *local) *cobra.Command {
	return l.onNode("stop", "End nodes in good order", func(ctx context.Context, c *localcluster.Cluster, n localcluster.Node) error {
		return c.Stop(ctx, n)
	})
}

func kill(l *local) *cobra.Command {
	return l.onNode("kill", "Kill nodes without a warning (SIGKILL)", func(ctx context.Context, c *localcluster.Cluster, n localcluster.Node) error {
		return c.Kill(ctx, n)
	})
}

func pause(l *local) *cobra.Command {
	return l.onNode("pause", "Freeze nodes (SIGSTOP)", func(ctx context.Context, c *localcluster.Cluster, n localcluster.Node) error {
		return c.Pause(ctx, n)
	})
}

func resume(l *local) *cobra.Command {
	return l.onNode("resume", "Have frozen nodes go on (SIGCONT)", func(ctx context.Context, c *localcluster.Cluster, n localcluster.Node) error {
		return c.Resume(ctx, n)
	})
}

func start(l *local) *cobra.Command {
	wait := true
	cmd := l.onNode("start", "Start nodes that do not run, and wait until they are in service", func(ctx context.Context, c *localcluster.Cluster, n localcluster.Node) error {
		if err := c.Start(n); err != nil || !wait {
			return err
		}
		return c.AwaitReady(ctx, n)
	})
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until the nodes are in service, for which there must be controllers")
	return cmd
}

func down(l *local) *cobra.Command {
	return l.bind(&cobra.Command{
		Use:   "down",
		Short: "End all nodes in good order, and leave the folder",
		Long: `End all nodes in good order, the controllers last, and leave the folder: up goes on from there.
What still runs after --timeout is killed.`,
		Example: "  cauce cluster down --data-dir data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := l.open()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), l.timeout)
			defer cancel()
			return c.Down(ctx)
		},
	}, time.Minute)
}
