// Package top holds `cauce top`: topics, groups and nodes of a cluster, live.
package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/terminal"
)

const (
	intervalDefault = 2 * time.Second
	intervalMin     = 100 * time.Millisecond
)

type top struct {
	session  *session.Session
	interval time.Duration
}

// Command returns `cauce top`.
func Command(s *session.Session) *cobra.Command {
	t := &top{session: s}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show topics, groups and nodes live",
		Long: `Show topics, groups and nodes live: what is written and committed each second, which groups are behind and
whether that grows, and what each node leads. Rates are what offsets have moved by between two looks, so any
Kafka-compatible cluster will do.

On a terminal it is drawn again and again; q ends it. Elsewhere, and with -o json, it looks twice and ends.`,
		Example: `  cauce top
  cauce top --interval 10s -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.interval < intervalMin {
				return exit.Usagef("--interval %s: must be %s or more", t.interval, intervalMin)
			}
			return t.run(cmd.Context())
		},
	}
	cmd.Flags().DurationVar(&t.interval, "interval", intervalDefault, "look again after `DURATION`")
	s.BindConnection(cmd)
	s.BindOutput(cmd)
	return cmd
}

func (t *top) run(ctx context.Context) (err error) {
	admin, err := t.session.Admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	before, err := t.look(ctx, admin)
	if before == nil {
		return err
	}
	live := terminal.Is(t.session.Out) && t.session.Format != output.JSON
	var keys *terminal.Keys
	if live {
		if keys = terminal.OpenKeys(t.session.In); keys != nil {
			defer func() { err = errors.Join(err, keys.Close()) }()
		}
	}
	for {
		if wait(ctx, keys, t.interval) {
			return end(ctx, live)
		}
		after, fault := t.look(ctx, admin)
		if !live {
			if after == nil {
				return fault
			}
			return errors.Join(t.print(viewOf(before, after)), fault)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := t.draw(before, after, fault); err != nil {
			return err
		}
		if after != nil {
			before = after
		}
	}
}

// end is an interruption: that of what goes on until then is none.
func end(ctx context.Context, live bool) error {
	if live {
		return nil
	}
	return ctx.Err()
}

// look takes a sample within --timeout. It is there even with an error if that is only of parts of it.
func (t *top) look(ctx context.Context, admin *kadm.Client) (*sample, error) {
	ctx, cancel := t.session.Bounded(ctx)
	defer cancel()
	return take(ctx, admin)
}

func (t *top) print(v View) error {
	if t.session.Format == output.JSON {
		return output.WriteJSON(t.session.Out, v)
	}
	return v.write(t.session.Out, math.MaxInt, 0)
}

// draw fills the screen. What could not be found out is told below, since a cluster in trouble is what one wants to go on watching.
func (t *top) draw(before, after *sample, fault error) error {
	columns, lines := terminal.Size(t.session.Out)
	var frame bytes.Buffer
	frame.WriteString(terminal.Clear)
	if after != nil {
		v := viewOf(before, after)
		if err := v.write(&frame, columns, lines); err != nil {
			return err
		}
	}
	if fault != nil {
		fmt.Fprintln(&frame, cut("cauce: "+fault.Error(), columns, 1))
	}
	_, err := t.session.Out.Write(frame.Bytes())
	return err
}

// wait says whether to end: the context did, or q was pressed. Otherwise it returns after d.
func wait(ctx context.Context, keys *terminal.Keys, d time.Duration) bool {
	due := time.NewTimer(d)
	defer due.Stop()
	if keys == nil {
		select {
		case <-ctx.Done():
			return true
		case <-due.C:
			return false
		}
	}
	for {
		key, err := keys.Next()
		if err != nil || key == 'q' || key == 'Q' {
			return true
		}
		select {
		case <-ctx.Done():
			return true
		case <-due.C:
			return false
		default:
		}
	}
}
