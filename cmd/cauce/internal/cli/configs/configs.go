// Package configs holds the commands under `cauce config`.
package configs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// Command returns `cauce config`.
func Command(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Aliases: []string{"configs"},
		Short:   "Describe and alter the configs of topics, brokers, groups and client metrics",
	}
	s.BindConnection(cmd)
	s.BindOutput(cmd)
	cmd.AddCommand(describe(s), alter(s))
	return cmd
}

// kinds are the resource types in the order the help shows them.
var kinds = []struct {
	word string
	kind kmsg.ConfigResourceType
}{
	{"topic", kmsg.ConfigResourceTypeTopic},
	{"broker", kmsg.ConfigResourceTypeBroker},
	{"broker-logger", kmsg.ConfigResourceTypeBrokerLogger},
	{"group", kmsg.ConfigResourceTypeGroupConfig},
	{"client-metrics", kmsg.ConfigResourceTypeClientMetrics},
}

const kindsHelp = `TYPE is topic, broker, broker-logger, group or client-metrics. Without a NAME, broker means the
defaults for all brokers of the cluster.`

func kindWords() []string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = k.word
	}
	return words
}

// resource is what a command line names: a type and, unless it is the brokers' default, a name.
type resource struct {
	word string
	kind kmsg.ConfigResourceType
	name string
}

func parseResource(args []string) (resource, error) {
	i := slices.Index(kindWords(), strings.TrimSuffix(args[0], "s"))
	if i < 0 {
		i = slices.Index(kindWords(), args[0])
	}
	if i < 0 {
		return resource{}, exit.Usagef("type %q: must be one of %s", args[0], strings.Join(kindWords(), ", "))
	}
	r := resource{word: kinds[i].word, kind: kinds[i].kind}
	if len(args) > 1 {
		r.name = args[1]
	}
	if r.name == "" && r.kind != kmsg.ConfigResourceTypeBroker {
		return resource{}, exit.Usagef("%s: needs a name", r.word)
	}
	return r, nil
}

func (r resource) String() string {
	if r.name == "" {
		return "the brokers' defaults"
	}
	return fmt.Sprintf("%s %q", r.word, r.name)
}

// fault names the resource that an answer is about.
func (r resource) fault(err error, message string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("config of %s: %w", r, exit.Answer(err, message))
}

func completeKinds(s *session.Session) cobra.CompletionFunc {
	topics := s.CompleteTopics(0)
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return kindWords(), cobra.ShellCompDirectiveNoFileComp
		case len(args) == 1 && args[0] == "topic":
			return topics(cmd, nil, prefix)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}
