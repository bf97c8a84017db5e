package cluster

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/localcluster"
)

func partition(l *local) *cobra.Command {
	oneWay := false
	cmd := &cobra.Command{
		Use:   "partition A,… B,…",
		Short: "Cut the network between nodes",
		Long: `Cut the network between the nodes A and the nodes B, both ways or one: every packet is dropped, also of open
connections, until cluster heal. Clients still reach all of them. It needs a cluster whose nodes are in network
namespaces.`,
		Example: `  cauce cluster partition 1 2 --data-dir data
  cauce cluster partition 1,101 2,3,102,103 --data-dir data
  cauce cluster partition 1 101,102,103 --one-way --data-dir data`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := l.open()
			if err != nil {
				return err
			}
			from, err := find(c, strings.Split(args[0], ","))
			if err != nil {
				return err
			}
			to, err := find(c, strings.Split(args[1], ","))
			if err != nil {
				return err
			}
			var cuts []localcluster.Cut
			for _, a := range from {
				for _, b := range to {
					if a.ID == b.ID {
						return exit.Usagef("node %d is on both sides", a.ID)
					}
					cuts = append(cuts, localcluster.Cut{From: a.ID, To: b.ID})
					if !oneWay {
						cuts = append(cuts, localcluster.Cut{From: b.ID, To: a.ID})
					}
				}
			}
			return c.Cut(cuts...)
		},
	}
	cmd.Flags().BoolVar(&oneWay, "one-way", false, "drop only what A sends to B")
	return l.bind(cmd, time.Minute)
}

func heal(l *local) *cobra.Command {
	return l.bind(&cobra.Command{
		Use:     "heal",
		Short:   "Undo all partitions",
		Example: "  cauce cluster heal --data-dir data",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := l.open()
			if err != nil {
				return err
			}
			return c.Heal()
		},
	}, time.Minute)
}
