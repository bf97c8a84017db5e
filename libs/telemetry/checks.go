package telemetry

import (
	"errors"
	"slices"
	"sync"
)

// checks are what /healthz and /readyz ask. They belong to the telemetry of a process and not to its admin server, so
// that a part can tell how it is without knowing whether anybody can ask.
type checks struct {
	mu            sync.Mutex
	health, ready []check
}

// errStarting stands for the checks of a process that has not come to have any.
var errStarting = errors.New("starting")

type check struct {
	name string
	run  func() error
}

// Health adds a check whose failure means that the process must be restarted.
// The check must not block.
func (t *Telemetry) Health(name string, run func() error) {
	t.checks.mu.Lock()
	defer t.checks.mu.Unlock()
	t.checks.health = append(t.checks.health, check{name, run})
}

// Ready adds a check whose failure means that the process cannot serve yet, or
// not at the moment. The check must not block.
func (t *Telemetry) Ready(name string, run func() error) {
	t.checks.mu.Lock()
	defer t.checks.mu.Unlock()
	t.checks.ready = append(t.checks.ready, check{name, run})
}

// forHealth and forReady are the checks so far.
func (c *checks) forHealth() []check {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.health)
}

func (c *checks) forReady() []check {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ready) == 0 {
		return append(slices.Clone(c.health), check{"process", func() error { return errStarting }})
	}
	return slices.Concat(c.health, c.ready)
}
