// Package txn holds the commands under `cauce txn`.
package txn

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// Command returns `cauce txn`.
func Command(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "txn", Short: "Look at transactions, and end those that hang"}
	s.BindConnection(cmd)
	s.BindOutput(cmd)
	cmd.AddCommand(list(s), describe(s), abort(s), findHanging(s))
	return cmd
}

// states of transactions, as Kafka spells them.
var states = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}

// since words how long ago a time in milliseconds since 1970 is.
func since(now time.Time, ms int64) string {
	if ms < 0 {
		return ""
	}
	return max(0, now.Sub(time.UnixMilli(ms))).Round(10 * time.Millisecond).String()
}
