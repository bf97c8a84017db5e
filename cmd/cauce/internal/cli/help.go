package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
)

// usageTemplate is how every command's help ends.
const usageTemplate = `Usage:{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{else}}
  {{.UseLine}}{{end}}
{{- if .HasExample}}

Examples:
{{.Example}}{{end}}
{{- range groups .}}

{{.Title}}:{{range .Commands}}
  {{rpad .Name .NamePadding}}  {{.Short}}{{end}}{{end}}
{{- if .HasAvailableLocalFlags}}

Flags:
{{flagUsages .LocalFlags}}{{end}}
{{- if .HasAvailableInheritedFlags}}

{{if .HasAvailableLocalFlags}}Common flags{{else}}Flags{{end}}:
{{flagUsages .InheritedFlags}}{{end}}
{{- if .HasAvailableSubCommands}}

More about a command: {{.CommandPath}} COMMAND --help{{end}}
`

type commandGroup struct {
	Title    string
	Commands []*cobra.Command
}

func init() {
	cobra.AddTemplateFunc("groups", groups)
	cobra.AddTemplateFunc("flagUsages", flagUsages)
}

// groups lists a command's children under the titles of their groups, those without one last.
func groups(cmd *cobra.Command) []commandGroup {
	var all []commandGroup
	add := func(title, id string) {
		group := commandGroup{Title: title}
		for _, child := range cmd.Commands() {
			if child.GroupID == id && child.IsAvailableCommand() {
				group.Commands = append(group.Commands, child)
			}
		}
		if len(group.Commands) > 0 {
			all = append(all, group)
		}
	}
	for _, group := range cmd.Groups() {
		add(group.Title, group.ID)
	}
	add(map[bool]string{true: "Others", false: "Commands"}[len(all) > 0], "")
	return all
}

func flagUsages(flags *pflag.FlagSet) string {
	table := output.NewTable(output.Left(""), output.Left(""))
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		name, usage := pflag.UnquoteUsage(flag)
		usage = strings.TrimSuffix(usage, ": "+name) // what is listed already need not be told twice
		spelled := "      --" + flag.Name
		if flag.Shorthand != "" {
			spelled = fmt.Sprintf("  -%s, --%s", flag.Shorthand, flag.Name)
		}
		if name != "" {
			spelled += " " + name
		}
		switch flag.DefValue {
		case "", "false", "0", "0s", "[]":
		default:
			usage += fmt.Sprintf(" (default %s)", flag.DefValue)
		}
		table.Row(spelled, usage)
	})
	var b strings.Builder
	_ = table.Write(&b) // a strings.Builder does not fail
	return strings.TrimSuffix(b.String(), "\n")
}
