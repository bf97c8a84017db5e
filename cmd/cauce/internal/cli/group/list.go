package group

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group/snapshot"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// What groups can be, as Kafka spells it.
var (
	states = []string{"PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling", "NotReady"}
	types  = []string{snapshot.Classic, snapshot.Consumer, "share", "streams"}
)

type listed struct {
	Group       string `json:"group"`
	Type        string `json:"type"`
	State       string `json:"state"`
	Protocol    string `json:"protocol_type"`
	Members     int32  `json:"members"` // -1: unknown
	Coordinator int32  `json:"coordinator_id"`
}

type listing struct {
	session *session.Session
	states  []string
	types   []string
	quiet   bool
	watch   watch
}

func list(s *session.Session) *cobra.Command {
	l := &listing{session: s}
	cmd := &cobra.Command{
		Use:     "list [PATTERN]",
		Aliases: []string{"ls"},
		Short:   "List groups, all or those whose names match a pattern (* and ?)",
		Example: `  cauce group list
  cauce group list 'orders-*' --state Stable --type consumer
  cauce group list --watch`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := "*"
			if len(args) == 1 {
				pattern = args[0]
			}
			return l.run(cmd.Context(), pattern)
		},
		ValidArgsFunction: s.CompleteGroups(1),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&l.states, "state", nil, "list groups in `STATE` only; may be repeated: "+strings.Join(states, ", "))
	flags.StringSliceVar(&l.types, "type", nil, "list groups of `TYPE` only; may be repeated: "+strings.Join(types, ", "))
	flags.BoolVarP(&l.quiet, "quiet", "q", false, "print names only, one per line")
	l.watch.bind(flags)
	return cmd
}

func (l *listing) run(ctx context.Context, pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return exit.Usagef("pattern %q: %w", pattern, err)
	}
	if err := oneOf("--state", l.states, states); err != nil {
		return err
	}
	if err := oneOf("--type", l.types, types); err != nil {
		return err
	}
	admin, err := l.session.Admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	return l.watch.run(ctx, l.session, func(ctx context.Context, s *session.Session) error {
		found, err := l.load(ctx, admin, pattern)
		if found == nil && err != nil {
			return err
		}
		return errors.Join(l.print(s, found), err)
	})
}

// oneOf checks the values of a flag, and spells them as Kafka does.
func oneOf(flag string, values, known []string) error {
	for i, value := range values {
		at := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, value) })
		if at < 0 {
			return exit.Usagef("%s %q: must be one of %s", flag, value, strings.Join(known, ", "))
		}
		values[i] = known[at]
	}
	return nil
}

// load filters by itself: clusters from before KIP-518 and KIP-848 would list all.
func (l *listing) load(ctx context.Context, admin *kadm.Client, pattern string) ([]listed, error) {
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		err = fmt.Errorf("list groups: %w", exit.Answer(err, ""))
		if len(groups) == 0 {
			return nil, err
		}
	}
	found := []listed{}
	var described []string
	for _, g := range groups.Sorted() {
		group := listed{Group: g.Group, Type: g.GroupType, State: g.State, Protocol: g.ProtocolType, Members: -1, Coordinator: g.Coordinator}
		if group.Type == "" {
			group.Type = snapshot.Classic
		}
		group.Type = strings.ToLower(group.Type)
		if match, _ := path.Match(pattern, g.Group); !match || excluded(l.states, g.State) || excluded(l.types, group.Type) {
			continue
		}
		if group.Type == snapshot.Classic || group.Type == snapshot.Consumer {
			described = append(described, g.Group)
		}
		found = append(found, group)
	}
	if len(described) > 0 && !l.quiet {
		details, _ := snapshot.Describe(ctx, admin, described...) // who cannot be described may end meanwhile
		for _, detail := range details {
			at := slices.IndexFunc(found, func(g listed) bool { return g.Group == detail.ID })
			found[at].Members = int32(len(detail.Members))
		}
	}
	return found, err
}

func excluded(wanted []string, value string) bool {
	return len(wanted) > 0 && !slices.Contains(wanted, value)
}

func (l *listing) print(s *session.Session, found []listed) error {
	if l.quiet && s.Format == output.Tabular {
		for _, group := range found {
			if _, err := fmt.Fprintln(s.Out, group.Group); err != nil {
				return err
			}
		}
		return nil
	}
	return s.Print(found, func() *output.Table {
		table := output.NewTable(output.Left("GROUP"), output.Left("STATE"), output.Left("TYPE"), output.Left("PROTOCOL"), output.Right("MEMBERS"), output.Right("COORDINATOR"))
		for _, group := range found {
			table.Row(group.Group, group.State, group.Type, group.Protocol, known(group.Members), group.Coordinator)
		}
		return table
	})
}
