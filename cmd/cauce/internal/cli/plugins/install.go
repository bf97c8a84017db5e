package plugins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type installed struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

type installation struct {
	session *session.Session
	folder  string
}

func install(s *session.Session) *cobra.Command {
	i := &installation{session: s}
	cmd := &cobra.Command{
		Use:   "install DIR|BINARY",
		Short: "Put a plugin where Cauce finds it",
		Long: `Build DIR, or take BINARY, and put it into --plugin-path. That happens at once: a node that runs an earlier version
lets its calls end and goes on with the new one. The checksum that is printed may go into plugin.checksums.`,
		Example: "  cauce plugin install tenant-aware --plugin-path /opt/cauce/plugins",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return i.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&i.folder, "plugin-path", "", "one of the folders in plugin.path, a `DIR` (default plugins beside this program)")
	return cmd
}

func (i *installation) run(ctx context.Context, path string) (err error) {
	if i.folder == "" {
		i.folder = defaultFolder()
	}
	temporary, err := workshop(i.session)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, temporary.Remove()) }()
	binary, err := program(ctx, i.session, path, temporary.Path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(i.folder, 0o755); err != nil {
		return err
	}
	done := installed{Path: filepath.Join(i.folder, filepath.Base(binary))}
	if done.SHA256, err = replace(binary, done.Path); err != nil {
		return fmt.Errorf("installing %s: %w", done.Path, err)
	}
	return i.session.Print(done, func() *output.Table {
		table := output.NewTable(output.Left("PATH"), output.Left("SHA256"))
		table.Row(done.Path, done.SHA256)
		return table
	})
}

// replace copies a program to another name that becomes whole at once, and returns its checksum.
func replace(from, to string) (sum string, err error) {
	source, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer source.Close()
	// Names that begin with a dot are no plugins.
	part, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-")
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(part, hash), source)
	err = errors.Join(err, part.Chmod(0o755), part.Sync(), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), to)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(part.Name()))
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
