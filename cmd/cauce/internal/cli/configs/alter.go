package configs

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/keyvalue"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type altered struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	Result string `json:"result"` // altered, valid
}

type alteration struct {
	session                 *session.Session
	set, appended, subtract keyvalue.List
	unset                   []string
	dryRun                  bool
}

func alter(s *session.Session) *cobra.Command {
	a := &alteration{session: s}
	cmd := &cobra.Command{
		Use:     "alter TYPE [NAME]",
		Aliases: []string{"set"},
		Short:   "Set, unset, append to and subtract from configs",
		Long:    "Set, unset, append to and subtract from configs; all changes of one call are made together or not at all.\n\n" + kindsHelp,
		Example: `  cauce config alter topic orders --set retention.ms=3600000 --unset segment.ms
  cauce config alter topic orders --append cleanup.policy=compact
  cauce config alter broker --set log.retention.hours=24`,
		Args:              cobra.RangeArgs(1, 2),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args) },
		ValidArgsFunction: completeKinds(s),
	}
	flags := cmd.Flags()
	flags.Var(&a.set, "set", "set `key=value`; may be repeated")
	flags.StringSliceVar(&a.unset, "unset", nil, "go back to the default of `KEY`; may be repeated")
	flags.Var(&a.appended, "append", "add `key=value` to a list; may be repeated")
	flags.Var(&a.subtract, "subtract", "take `key=value` out of a list; may be repeated")
	flags.BoolVar(&a.dryRun, "dry-run", false, "have the cluster check the request without changing anything")
	return cmd
}

func (a *alteration) changes() []kmsg.IncrementalAlterConfigsRequestResourceConfig {
	var changes []kmsg.IncrementalAlterConfigsRequestResourceConfig
	add := func(op kmsg.IncrementalAlterConfigOp, key string, value *string) {
		change := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		change.Op, change.Name, change.Value = op, key, value
		changes = append(changes, change)
	}
	for key, value := range a.set.All() {
		add(kmsg.IncrementalAlterConfigOpSet, key, &value)
	}
	for _, key := range a.unset {
		add(kmsg.IncrementalAlterConfigOpDelete, key, nil)
	}
	for key, value := range a.appended.All() {
		add(kmsg.IncrementalAlterConfigOpAppend, key, &value)
	}
	for key, value := range a.subtract.All() {
		add(kmsg.IncrementalAlterConfigOpSubtract, key, &value)
	}
	return changes
}

func (a *alteration) run(ctx context.Context, args []string) error {
	resource, err := parseResource(args)
	if err != nil {
		return err
	}
	changes := a.changes()
	if len(changes) == 0 {
		return exit.Usagef("nothing to alter: give --set, --unset, --append or --subtract")
	}
	client, err := a.session.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := a.session.Bounded(ctx)
	defer cancel()

	target := kmsg.NewIncrementalAlterConfigsRequestResource()
	target.ResourceType, target.ResourceName, target.Configs = resource.kind, resource.name, changes
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources, request.ValidateOnly = append(request.Resources, target), a.dryRun
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return resource.fault(err, "")
	}
	for _, answer := range response.Resources {
		if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
			return resource.fault(err, text(answer.ErrorMessage))
		}
	}
	result := altered{resource.word, resource.name, "altered"}
	if a.dryRun {
		result.Result = "valid"
	}
	return a.session.Print([]altered{result}, func() *output.Table {
		table := output.NewTable(output.Left("TYPE"), output.Left("NAME"), output.Left("RESULT"))
		table.Row(result.Type, result.Name, result.Result)
		return table
	})
}
