package logfiles

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/format"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

const dumpLong = `Print what the files of a partition hold, and check them: checksums of batches, index entries against
the segment they index, checksums of snapshots. Faults go to stderr and make the exit code 1.

A PATH is a file, the folder of a partition, or a log directory, of which checkpoints and partitions
are shown. Nothing is written, so the files of a running server may be read; their ends may then be
reported as torn.

  .log .checkpoint                   segments and metadata snapshots: one line for each batch
  .index .timeindex .txnindex        offset, time and transaction index
  .snapshot                          producer state
  leader-epoch-checkpoint and others text files

With -o json each batch or entry is one object a line.`

type dump struct {
	session  *session.Session
	records  bool
	template string

	emit   *emitter
	format *format.Format
	faults []error
	ctx    context.Context
}

func dumpCommand(s *session.Session) *cobra.Command {
	d := &dump{session: s}
	cmd := &cobra.Command{
		Use:   "dump PATH…",
		Short: "Print and check the files of partitions and log directories",
		Long:  dumpLong,
		Example: `  cauce log dump $(cauce log dir --data-dir data)/orders-0
  cauce log dump data/log/orders-0/00000000000000000000.log --records -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error { return d.run(cmd.Context(), paths) },
	}
	s.BindOutput(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&d.records, "records", "r", false, "print records too")
	flags.StringVarP(&d.template, "format", "f", `    %o  %d  %k: %v  %h\n`, "print each record by this `TEMPLATE`, see cauce consume")
	return cmd
}

func (d *dump) run(ctx context.Context, paths []string) error {
	var err error
	if d.format, err = format.Parse(d.template, "(null)"); err != nil {
		return exit.Usagef("--format: %w", err)
	}
	d.ctx = ctx
	d.emit = &emitter{out: bufio.NewWriterSize(d.session.Out, 1<<16), json: d.session.Format == output.JSON}
	for _, path := range paths {
		if err := d.path(path); err != nil {
			return errors.Join(d.emit.out.Flush(), err)
		}
	}
	return errors.Join(append([]error{d.emit.out.Flush()}, d.faults...)...)
}

// fault notes what is wrong in a file; dumping goes on.
func (d *dump) fault(path, where string, args ...any) {
	d.faults = append(d.faults, fmt.Errorf("%s: "+where, append([]any{path}, args...)...))
}

// path dumps a file or a folder. The error it returns ends the command.
func (d *dump) path(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return d.file(path, info.Size())
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.SortFunc(names, byKind)
	var folders []string
	for _, name := range names {
		inner := filepath.Join(path, name)
		info, err := os.Stat(inner)
		switch {
		case errors.Is(err, os.ErrNotExist): // a server may delete files meanwhile
			continue
		case err != nil:
			return err
		case info.IsDir():
			folders = append(folders, name)
		case kindOf(name) != "":
			if err := d.file(inner, info.Size()); err != nil {
				return err
			}
		}
	}
	return d.folders(path, folders)
}

// byKind keeps the files of one segment together, the segment first, and text files before segments.
func byKind(a, b string) int {
	rank := func(name string) int { return slices.Index(suffixes, filepath.Ext(name)) }
	stem := func(name string) string {
		if rank(name) < 0 {
			return ""
		}
		return strings.TrimSuffix(name, filepath.Ext(name))
	}
	if c := strings.Compare(stem(a), stem(b)); c != 0 {
		return c
	}
	if c := rank(a) - rank(b); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

var suffixes = []string{".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"}

// kindOf names what a file is, or nothing for files that are not dumped.
func kindOf(name string) string {
	switch name {
	case "leader-epoch-checkpoint":
		return "leader epochs"
	case "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint":
		return "offset checkpoint"
	case "partition.metadata", "meta.properties":
		return "properties"
	}
	switch strings.TrimPrefix(filepath.Ext(name), ".") {
	case "log":
		return "segment"
	case "checkpoint":
		return "metadata snapshot"
	case "index":
		return "offset index"
	case "timeindex":
		return "time index"
	case "txnindex":
		return "transaction index"
	case "snapshot":
		return "producer snapshot"
	}
	return ""
}

func (d *dump) file(path string, bytes int64) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	kind := kindOf(filepath.Base(path))
	if kind == "" {
		return exit.Usagef("%s: not a file of a log", path)
	}
	d.emit.begin(fmt.Sprintf("%s  (%s, %d bytes)", path, kind, bytes))
	switch kind {
	case "segment", "metadata snapshot":
		return d.segment(path)
	case "offset index":
		return d.offsetIndex(path)
	case "time index":
		return d.timeIndex(path)
	case "transaction index":
		return d.txnIndex(path)
	case "producer snapshot":
		return d.producerSnapshot(path)
	case "leader epochs":
		return d.epochs(path)
	case "offset checkpoint":
		return d.checkpoint(path)
	}
	return d.properties(path)
}
