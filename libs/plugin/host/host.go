// Package host runs plugin programs: it finds them in folders, starts them when they are needed, bounds what a call may
// take, replaces those that crash, hang or change, and tells how they do. A fault of a plugin is the fault of the calls
// that it concerns and of nothing else.
package host

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
	"github.com/cauce-stream/cauce/libs/plugin/tempdir"
)

// Config says where plugins are and what they may take. Zero values stand for the defaults.
type Config struct {
	// Path are folders, and single programs. Each executable file directly in a folder is a plugin program, unless its name
	// begins with a dot. Of several plugins of one kind and name the first counts. What does not exist is passed over.
	Path []string
	// Kinds are those that are wanted; all when there are none. A program that offers nothing of them is ended once that is
	// known, and runs no more.
	Kinds []pluginpb.Kind
	// Checksums are SHA-256 sums in hexadecimal by name of file. When there are any, a file runs only if it has one and matches.
	Checksums map[string]string
	// CallTimeout is the most that a call may take; 5 s by default.
	CallTimeout time.Duration
	// StartTimeout is the most that a process may take until it says what it offers; 10 s by default.
	StartTimeout time.Duration
	// ScanInterval is how often the folders are looked through, besides when a plugin is not known; 5 s by default.
	ScanInterval time.Duration
	// MaxAnswerBytes bounds an answer; 16 MiB by default.
	MaxAnswerBytes int
	// MaxMemoryBytes bounds the resident memory of a process; 1 GiB by default. It is checked on Linux.
	MaxMemoryBytes int64
}

// Deps are what a host needs of its process. Each may be nil.
type Deps struct {
	Log     *zap.Logger
	Metrics prometheus.Registerer
	Tracer  trace.Tracer
}

// Host runs the plugins of one process. Its methods may be called from any goroutine.
type Host struct {
	config    Config
	log       *zap.Logger
	tracer    trace.Tracer
	metrics   *metrics
	sockets   *tempdir.Dir
	scanning  chan struct{} // holds a token while nobody scans
	launching chan struct{} // has a place for each process of a task that may be starting

	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	closed    bool
	work      sync.WaitGroup // what spawn started
	files     []*file        // in order of Path and name
	latencies map[offerKey]*latencies
}

// New starts a host. Programs are started in the background, to learn what they offer. Close ends the host.
func New(c Config, d Deps) (*Host, error) {
	c = c.withDefaults()
	for name, sum := range c.Checksums {
		if len(sum) != 64 || strings.Trim(strings.ToLower(sum), "0123456789abcdef") != "" {
			return nil, fmt.Errorf("plugin checksum of %s: %q is not a SHA-256 in hexadecimal", name, sum)
		}
	}
	if d.Log == nil {
		d.Log = zap.NewNop()
	}
	if d.Tracer == nil {
		d.Tracer = noop.NewTracerProvider().Tracer("")
	}
	m, err := newMetrics(d.Metrics)
	if err != nil {
		return nil, err
	}
	sockets, err := tempdir.New("cauce-sockets-", func(err error) { d.Log.Warn("sockets of plugins", zap.Error(err)) })
	if err != nil {
		m.unregister()
		return nil, fmt.Errorf("folder for the sockets of plugins: %w", err)
	}
	h := &Host{config: c, log: d.Log.Named("plugins"), tracer: d.Tracer, metrics: m, sockets: sockets,
		scanning: make(chan struct{}, 1), launching: make(chan struct{}, parallelStarts), latencies: map[offerKey]*latencies{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.scanning <- struct{}{}
	h.spawn(h.scanNowAndThen)
	return h, nil
}

func (c Config) withDefaults() Config {
	if c.CallTimeout <= 0 {
		c.CallTimeout = 5 * time.Second
	}
	if c.StartTimeout <= 0 {
		c.StartTimeout = 10 * time.Second
	}
	if c.ScanInterval <= 0 {
		c.ScanInterval = 5 * time.Second
	}
	if c.MaxAnswerBytes <= 0 {
		c.MaxAnswerBytes = 16 << 20
	}
	if c.MaxMemoryBytes <= 0 {
		c.MaxMemoryBytes = 1 << 30
	}
	return c
}

// Close fails the calls under way, ends all processes and waits until nothing is left.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	h.cancel()
	h.mu.Unlock()
	h.work.Wait() // each process has a goroutine that stops it
	h.metrics.unregister()
	return h.sockets.Remove()
}

// spawn runs work that Close waits for, unless the host has stopped.
func (h *Host) spawn(work func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.work.Go(work)
	return true
}

// pause waits, unless ctx ends before; then it says so at once.
func (h *Host) pause(ctx context.Context, d time.Duration) error {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-h.ctx.Done():
		return errStopped
	}
}

// pinned refuses a file whose checksum is not the configured one.
func (h *Host) pinned(name, sum string) error {
	if len(h.config.Checksums) == 0 {
		return nil
	}
	switch want, ok := h.config.Checksums[name]; {
	case !ok:
		return fmt.Errorf("%w: plugin.checksums has no checksum for it, its own is %s", errRefused, sum)
	case !strings.EqualFold(want, sum):
		return fmt.Errorf("%w: its checksum is %s, plugin.checksums wants %s", errRefused, sum, want)
	}
	return nil
}
