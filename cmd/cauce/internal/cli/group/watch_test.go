package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/terminal"
)

// TestWatch sees a result again and again, a fault in between, and the end by interruption.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		s := &session.Session{Out: &out, Err: &errs, Format: output.Tabular, Timeout: time.Second}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		w := watch{every: 3 * time.Second}
		var at []time.Duration
		start := time.Now()
		err := w.run(ctx, s, func(ctx context.Context, s *session.Session) error {
			at = append(at, time.Since(start))
			switch len(at) {
			case 2:
				<-ctx.Done() // as long as --timeout has it
				return errors.New("coordinator moves")
			case 4:
				stop()
			}
			fmt.Fprintln(s.Out, "frame", len(at))
			return nil
		})
		if want := []time.Duration{0, 3 * time.Second, 6 * time.Second, 9 * time.Second}; err != nil || fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("%v, drawn at %v, want %v", err, at, want)
		}
		if got := out.String(); !strings.Contains(got, "frame 1\n") || !strings.Contains(got, "frame 3\n") || strings.Contains(got, "frame 4") || strings.Contains(got, terminal.Clear) {
			t.Errorf("printed %q", got)
		}
		if errs.String() != "cauce: coordinator moves\n" {
			t.Errorf("told %q", errs.String())
		}
	})
}

func TestWatchPrintsObjectsOfOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &session.Session{Out: &out, Format: output.JSON, Timeout: time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		w := watch{every: 2 * time.Second}
		err := w.run(ctx, s, func(_ context.Context, s *session.Session) error {
			return output.WriteJSON(s.Out, map[string]int{"lag": 1})
		})
		if want := strings.Repeat(`{"lag":1}`+"\n", 3); err != nil || out.String() != want {
			t.Errorf("%v, printed %q, want %q", err, out.String(), want)
		}
	})
}

// TestWatchEndsWithWhatFailsAtFirst is for a group that does not exist: waiting for it would look as if it did.
func TestWatchEndsWithWhatFailsAtFirst(t *testing.T) {
	s := &session.Session{Out: new(bytes.Buffer), Timeout: time.Second}
	fault := errors.New("does not exist")
	for _, every := range []time.Duration{0, watchMin} {
		w := watch{every: every}
		if err := w.run(t.Context(), s, func(context.Context, *session.Session) error { return fault }); !errors.Is(err, fault) {
			t.Errorf("every %s: %v", every, err)
		}
	}
	w := watch{every: watchMin - 1}
	if err := w.run(t.Context(), s, func(context.Context, *session.Session) error { panic("drawn") }); err == nil {
		t.Error("a watch without a pause was accepted")
	}
}
