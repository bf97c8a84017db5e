package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// Start starts the processes of nodes that have none.
func (c *Cluster) Start(nodes ...Node) error {
	if err := c.openNetwork(); err != nil {
		return err
	}
	var errs []error
	for _, n := range nodes {
		errs = append(errs, c.launch(n))
	}
	return errors.Join(errs...)
}

// AwaitReady returns once each of the nodes says that it is in service. It fails when a process ends, with what it said last.
func (c *Cluster) AwaitReady(ctx context.Context, nodes ...Node) error {
	return each(nodes, func(n Node) error {
		var last error
		err := poll(ctx, func() (bool, error) {
			if state, _, err := c.Process(n); err != nil || state == Stopped {
				return false, errors.Join(err, fmt.Errorf("node %d ended; its log %s ends with\n%s", n.ID, c.LogFile(n), c.lastLines(n)))
			}
			last = ready(ctx, n)
			return last == nil, nil
		})
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("node %d is not ready: %w (%w)", n.ID, last, err)
		}
		return err
	})
}

// ready asks a node's admin server.
func ready(ctx context.Context, n Node) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Admin+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s", request.URL, response.Status)
	}
	return nil
}

// Stop asks nodes to end and waits until they have. A paused one goes on first. Those that still run when ctx ends are
// named by the error, and go on running.
func (c *Cluster) Stop(ctx context.Context, nodes ...Node) error {
	return each(nodes, func(n Node) error {
		if err := errors.Join(c.signal(n, syscall.SIGTERM), c.resumeForGood(n)); err != nil {
			return err
		}
		return c.awaitEnd(ctx, n)
	})
}

// resumeForGood lets a process go on, which may have ended at SIGTERM before.
func (c *Cluster) resumeForGood(n Node) error {
	if state, _, err := c.Process(n); err != nil || state != Paused {
		return err
	}
	return c.signal(n, syscall.SIGCONT)
}

// Kill ends a node without a warning, as a crash would.
func (c *Cluster) Kill(ctx context.Context, n Node) error {
	if err := c.signal(n, syscall.SIGKILL); err != nil {
		return err
	}
	return c.awaitEnd(ctx, n)
}

// Pause freezes a node's process until Resume.
func (c *Cluster) Pause(ctx context.Context, n Node) error {
	if err := c.signal(n, syscall.SIGSTOP); err != nil {
		return err
	}
	return c.awaitState(ctx, n, Paused)
}

// Resume has a paused process go on.
func (c *Cluster) Resume(ctx context.Context, n Node) error {
	if err := c.signal(n, syscall.SIGCONT); err != nil {
		return err
	}
	return c.awaitState(ctx, n, Running)
}

// Down stops whatever runs: Connect workers first, which store by the brokers how far they have come, the controllers last, since nodes hand over to
// others what they have. What still runs when ctx ends is killed, and named by the error.
func (c *Cluster) Down(ctx context.Context) error {
	var errs []error
	turn := map[string]int{connect: 0, controller: 2}
	for now := range 3 {
		var running []Node
		for _, n := range c.plan.Nodes {
			state, _, err := c.Process(n)
			errs = append(errs, err)
			at, special := turn[n.Role]
			if !special {
				at = 1
			}
			if state != Stopped && err == nil && at == now {
				running = append(running, n)
			}
		}
		errs = append(errs, each(running, func(n Node) error {
			err := c.Stop(ctx, n)
			if state, _, _ := c.Process(n); state == Stopped {
				return nil
			}
			return errors.Join(err, c.Kill(context.WithoutCancel(ctx), n))
		}))
	}
	return errors.Join(append(errs, c.closeNetwork())...)
}

func (c *Cluster) awaitEnd(ctx context.Context, n Node) error { return c.awaitState(ctx, n, Stopped) }

func (c *Cluster) awaitState(ctx context.Context, n Node, want State) error {
	var state State
	err := poll(ctx, func() (done bool, err error) {
		state, _, err = c.Process(n)
		return state == want, err
	})
	if err != nil {
		return fmt.Errorf("node %d is %s, not %s: %w", n.ID, state, want, err)
	}
	return nil
}

const pollInterval = 20 * time.Millisecond

// poll looks until done says so or fails, or ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// each does work for all nodes at once and joins what fails.
func each(nodes []Node, work func(Node) error) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = work(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
