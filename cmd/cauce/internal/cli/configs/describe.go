package configs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type entry struct {
	Key           string    `json:"key"`
	Value         *string   `json:"value"` // null: none, or hidden because it is sensitive
	Source        string    `json:"source"`
	Type          string    `json:"type,omitempty"`
	ReadOnly      bool      `json:"read_only"`
	Sensitive     bool      `json:"sensitive"`
	Synonyms      []synonym `json:"synonyms"` // what would apply in turn, best first
	Documentation string    `json:"documentation,omitempty"`
}

type synonym struct {
	Key    string  `json:"key"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

type description struct {
	session *session.Session
	all     bool
	docs    bool
	keys    []string
}

func describe(s *session.Session) *cobra.Command {
	d := &description{session: s}
	cmd := &cobra.Command{
		Use:     "describe TYPE [NAME]",
		Aliases: []string{"get"},
		Short:   "Show what is configured, and where each value comes from",
		Long:    "Show what is configured, and where each value comes from.\n\n" + kindsHelp,
		Example: `  cauce config describe topic orders
  cauce config describe topic orders --key retention.ms --docs
  cauce config describe broker 1 --all`,
		Args:              cobra.RangeArgs(1, 2),
		RunE:              func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), args) },
		ValidArgsFunction: completeKinds(s),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&d.all, "all", "a", false, "show defaults too, not only what was set")
	flags.BoolVar(&d.docs, "docs", false, "show what each key means")
	flags.StringSliceVarP(&d.keys, "key", "k", nil, "show the key `KEY` only, set or not; may be repeated")
	return cmd
}

func (d *description) run(ctx context.Context, args []string) error {
	resource, err := parseResource(args)
	if err != nil {
		return err
	}
	client, err := d.session.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := d.session.Bounded(ctx)
	defer cancel()
	entries, err := d.load(ctx, client, resource)
	if err != nil {
		return err
	}
	for _, key := range d.keys {
		if !slices.ContainsFunc(entries, func(e entry) bool { return e.Key == key }) {
			return exit.With(exit.NotFound, fmt.Errorf("config of %s: there is no key %q", resource, key))
		}
	}
	return d.session.Print(entries, func() *output.Table { return d.table(entries) })
}

func (d *description) load(ctx context.Context, client *kgo.Client, r resource) ([]entry, error) {
	asked := kmsg.NewDescribeConfigsRequestResource()
	asked.ResourceType, asked.ResourceName, asked.ConfigNames = r.kind, r.name, nil
	if len(d.keys) > 0 {
		asked.ConfigNames = d.keys
	}
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Resources = append(request.Resources, asked)
	request.IncludeSynonyms, request.IncludeDocumentation = true, d.docs
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, r.fault(err, "")
	}
	entries := []entry{}
	for _, answer := range response.Resources {
		if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
			return nil, r.fault(err, text(answer.ErrorMessage))
		}
		for _, config := range answer.Configs {
			if d.all || len(d.keys) > 0 || config.Source != kmsg.ConfigSourceDefaultConfig {
				entries = append(entries, newEntry(config))
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.Key, b.Key) })
	return entries, nil
}

func newEntry(config kmsg.DescribeConfigsResponseResourceConfig) entry {
	e := entry{
		Key:           config.Name,
		Value:         config.Value,
		Source:        word(config.Source.String()),
		ReadOnly:      config.ReadOnly,
		Sensitive:     config.IsSensitive,
		Synonyms:      []synonym{},
		Documentation: text(config.Documentation),
	}
	if config.ConfigType != 0 {
		e.Type = word(config.ConfigType.String())
	}
	for _, s := range config.ConfigSynonyms {
		e.Synonyms = append(e.Synonyms, synonym{s.Name, s.Value, word(s.Source.String())})
	}
	return e
}

func (d *description) table(entries []entry) *output.Table {
	columns := []output.Column{output.Left("KEY"), output.Left("VALUE"), output.Left("SOURCE")}
	if d.docs {
		columns = append(columns, output.Left("MEANING"))
	}
	table := output.NewTable(columns...)
	for _, e := range entries {
		row := []any{e.Key, text(e.Value), e.Source}
		if e.Sensitive {
			row[1] = "(hidden)"
		}
		if d.docs {
			row = append(row, e.Documentation)
		}
		table.Row(row...)
	}
	return table
}

// word turns a protocol name into what people type: DYNAMIC_TOPIC_CONFIG is "dynamic topic".
func word(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(name, "_CONFIG"), "_", " "))
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
