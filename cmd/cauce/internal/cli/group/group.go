// Package group holds the commands under `cauce group`.
package group

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// Command returns `cauce group`.
func Command(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "group",
		Aliases: []string{"groups"},
		Short:   "List, describe, explain, reset and delete consumer groups",
	}
	s.BindConnection(cmd)
	s.BindOutput(cmd)
	cmd.AddCommand(list(s), describe(s), offsets(s), why(s), reset(s), remove(s))
	return cmd
}

// fault names the group that an answer is about.
func fault(group string, err error, message string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.GroupIDNotFound):
		message = "does not exist"
	case errors.Is(err, kerr.NonEmptyGroup):
		message = "has members: stop them first"
	}
	return fmt.Errorf("group %q: %w", group, exit.Answer(err, message))
}

// known words a number that may be unknown.
func known[N int32 | int64](n N) string {
	if n < 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}
