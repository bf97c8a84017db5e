package group

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/terminal"
)

const (
	watchDefault = 2 * time.Second
	watchMin     = 100 * time.Millisecond
)

// watch shows a result once, or again and again until the context ends.
type watch struct {
	every time.Duration // 0: once
}

func (w *watch) bind(flags *pflag.FlagSet) {
	flags.DurationVarP(&w.every, "watch", "w", 0, "show it again every `DURATION` (--watch alone: "+watchDefault.String()+") until interrupted; -o json prints an object a line")
	flags.Lookup("watch").NoOptDefVal = watchDefault.String()
}

// run has draw show the result, in --timeout each time. What goes wrong the first time ends the command; later it is told in
// place of the result, since a group whose coordinator moves is just what one wants to go on watching.
func (w *watch) run(ctx context.Context, s *session.Session, draw func(context.Context, *session.Session) error) error {
	if w.every == 0 {
		bounded, cancel := s.Bounded(ctx)
		defer cancel()
		return draw(bounded, s)
	}
	if w.every < watchMin {
		return exit.Usagef("--watch %s: must be %s or more", w.every, watchMin)
	}
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	for first := true; ; first = false {
		var frame bytes.Buffer
		fault := w.frame(ctx, s, &frame, draw)
		switch {
		case ctx.Err() != nil:
			return nil
		case fault != nil && first:
			_, err := s.Out.Write(frame.Bytes())
			return errors.Join(err, fault)
		}
		if err := w.show(s, frame.Bytes(), fault); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (w *watch) frame(ctx context.Context, s *session.Session, frame *bytes.Buffer, draw func(context.Context, *session.Session) error) error {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	drawn := *s
	drawn.Out = frame
	return draw(ctx, &drawn)
}

func (w *watch) show(s *session.Session, frame []byte, fault error) error {
	var shown bytes.Buffer
	switch {
	case s.Format == output.JSON:
		if len(frame) > 0 {
			if err := json.Compact(&shown, frame); err != nil {
				return err
			}
			shown.WriteByte('\n')
		}
	default:
		if terminal.Is(s.Out) {
			shown.WriteString(terminal.Clear)
		}
		fmt.Fprintf(&shown, "%s, every %s\n\n%s\n", time.Now().Format(time.DateTime), w.every, frame)
	}
	if _, err := s.Out.Write(shown.Bytes()); err != nil {
		return err
	}
	if fault != nil {
		fmt.Fprintln(s.Err, "cauce:", fault)
	}
	return nil
}
