package session

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// completionTimeout keeps the shell responsive when the cluster is not.
const completionTimeout = 2 * time.Second

// CompleteTopics offers the cluster's topics as arguments in shell completion, at most limit of
// them (0: no limit). It stays silent when the cluster does not answer.
func (s *Session) CompleteTopics(limit int) cobra.CompletionFunc {
	return s.complete(limit, func(ctx context.Context, admin *kadm.Client) ([]string, error) {
		topics, err := admin.ListTopics(ctx)
		return topics.Names(), err
	})
}

// CompleteGroups offers the cluster's groups as CompleteTopics does its topics.
func (s *Session) CompleteGroups(limit int) cobra.CompletionFunc {
	return s.complete(limit, func(ctx context.Context, admin *kadm.Client) ([]string, error) {
		groups, err := admin.ListGroups(ctx)
		return groups.Groups(), err
	})
}

func (s *Session) complete(limit int, list func(context.Context, *kadm.Client) ([]string, error)) cobra.CompletionFunc {
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
		all, err := list(ctx, admin)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
