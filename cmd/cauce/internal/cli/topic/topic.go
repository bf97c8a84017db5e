// Package topic holds the commands under `cauce topic`.
package topic

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// Command returns `cauce topic`.
func Command(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "topic",
		Aliases: []string{"topics"},
		Short:   "Create, list, describe, alter and delete topics",
	}
	s.BindConnection(cmd)
	s.BindOutput(cmd)
	cmd.AddCommand(create(s), list(s), describe(s), alter(s), remove(s))
	return cmd
}

// fault names the topic that an answer is about.
func fault(topic string, err error, message string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("topic %q: %w", topic, exit.Answer(err, message))
}
