package session

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout keeps the shell responsive when the cluster is not.
const completionTimeout = 2 * time.Second

// CompleteTopics offers the cluster's topics as arguments in shell completion, at most limit of
// them (0: no limit). It stays silent when the cluster does not answer.
func (s *Session) CompleteTopics(limit int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if limit > 0 && len(args) >= limit {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		admin, err := s.Admin(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer admin.Close()
		topics, err := admin.ListTopics(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, name := range topics.Names() {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
