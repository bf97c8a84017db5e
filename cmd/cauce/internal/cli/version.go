package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/libs/process"
)

type version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionCommand(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print which version this is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if s.Format == output.JSON {
				return output.WriteJSON(s.Out, version{process.Version, process.Commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
			}
			_, err := fmt.Fprintln(s.Out, process.VersionLine("cauce"))
			return err
		},
	}
	s.BindOutput(cmd)
	return cmd
}
