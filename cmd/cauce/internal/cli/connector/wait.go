package connector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/connector/rest"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

// The states that a command looks for.
const (
	running = "RUNNING"
	failed  = "FAILED"
	// gone is what a deleted connector is; no worker says so.
	gone = "DELETED"
)

const (
	waitDefault = time.Minute
	waitEvery   = 200 * time.Millisecond
)

// waiting waits, if it was asked to, until connectors are what they were told to be.
type waiting struct{ most time.Duration }

func (w *waiting) bind(flags *pflag.FlagSet) {
	flags.DurationVar(&w.most, "wait", 0, "wait at most `DURATION` (--wait alone: "+waitDefault.String()+") until it is so with all tasks; what fails meanwhile is told with its trace")
	flags.Lookup("wait").NoOptDefVal = waitDefault.String()
}

// before is what a connector had failed of already, which is no answer to what it is told now.
func (w *waiting) before(ctx context.Context, c *rest.Client, name string) map[string]bool {
	known := map[string]bool{}
	if w.most == 0 {
		return known
	}
	// A connector without a status has not failed.
	if s, err := c.Status(ctx, name); err == nil {
		for _, why := range traces(s) {
			known[why] = true
		}
	}
	return known
}

// until waits until a connector is in a state, with all its tasks. It ends early with the reasons of what has failed and was not known to have.
func (w *waiting) until(ctx context.Context, c *rest.Client, name, state string, known map[string]bool) error {
	if w.most == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.most)
	defer cancel()
	ticker := time.NewTicker(waitEvery)
	defer ticker.Stop()
	for seen := "no state yet"; ; {
		done, now, err := look(ctx, c, name, state, known)
		if done {
			return nil
		}
		if now != "" {
			seen = now
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return exit.With(exit.Timeout, fmt.Errorf("connector %q is not %s after %s: %s", name, state, w.most, seen))
		case <-ticker.C:
		}
	}
}

// look says whether a connector is in a state, and otherwise in which it is, and that it will not come to be.
func look(ctx context.Context, c *rest.Client, name, state string, known map[string]bool) (done bool, seen string, err error) {
	info, err := c.Info(ctx, name)
	switch {
	case rest.Is(err, http.StatusNotFound) && state == gone:
		return true, "", nil
	case err != nil:
		return false, "", fault(name, err)
	}
	s, err := c.Status(ctx, name)
	if rest.Is(err, http.StatusNotFound) {
		return false, "no worker has said anything of it", nil
	}
	if err != nil {
		return false, "", fault(name, err)
	}
	failures := traces(s)
	for _, why := range failures {
		if !known[why] && state != gone {
			return false, "", errors.New(strings.Join(failures, "\n"))
		}
	}
	return is(s, info, state), strings.Join(append([]string{describe(s)}, failures...), "\n"), nil
}

// is says whether a connector and all its tasks are in a state.
func is(s rest.Status, info rest.Info, state string) bool {
	if s.Connector.State != state || len(s.Tasks) != len(info.Tasks) || state == running && len(s.Tasks) == 0 {
		return false
	}
	for _, task := range s.Tasks {
		if task.State.State != state {
			return false
		}
	}
	return true
}

func describe(s rest.Status) string {
	text := "it is " + s.Connector.State
	for _, task := range s.Tasks {
		text += fmt.Sprintf(", task %d %s", task.ID, task.State.State)
	}
	return text
}
