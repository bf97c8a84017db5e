// Package plugins holds the commands under `cauce plugin`, the way of a plugin's author from the first file to a running
// assignor.
package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/libs/plugin/tempdir"
)

// Command returns `cauce plugin`.
func Command(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "plugin",
		Aliases: []string{"plugins"},
		Short:   "Write, test, install and list plugins",
		Long:    "Write, test, install and list plugins. docs/plugins.md walks through it.",
	}
	s.BindOutput(cmd)
	cmd.AddCommand(create(s), test(s), install(s), list(s))
	return cmd
}

// defaultFolder is where a node of these programs looks for plugins: the folder plugins beside them.
func defaultFolder() string {
	program, err := os.Executable()
	if err != nil {
		return "plugins"
	}
	return filepath.Join(filepath.Dir(program), "plugins")
}

// workshop is a temporary folder to build programs in.
func workshop(s *session.Session) (*tempdir.Dir, error) {
	return tempdir.New("cauce-build-", func(err error) { fmt.Fprintln(s.Err, err) })
}

// program returns the program that DIR|BINARY stands for: a Go module is built into folder.
func program(ctx context.Context, s *session.Session, path, folder string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.IsDir() && info.Mode().Perm()&0o111 == 0:
		return "", fmt.Errorf("%s is not executable", path)
	case !info.IsDir():
		return filepath.Abs(path)
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); errors.Is(err, fs.ErrNotExist) {
		return "", exit.With(exit.NotFound, fmt.Errorf("%s has no go.mod: a plugin in another language is named by its program", path))
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	built := filepath.Join(folder, filepath.Base(absolute))
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", built, ".")
	build.Dir = path
	// The module stands for itself, wherever it lies; static programs run on any machine.
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	build.Stdout, build.Stderr = s.Err, s.Err
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("building %s: %w", path, err)
	}
	return built, nil
}
