package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// States of a file, as List tells them.
const (
	stateStopped = "stopped" // no process; the next call starts one
	stateRunning = "running"
	stateFailed  = "failed" // the last start or process failed; the next call starts one, after a pause when it fails again and again
	stateRefused = "refused"
)

const (
	// The pause before a start after the second failure in a row; it doubles up to the longest.
	firstBackoff   = 100 * time.Millisecond
	longestBackoff = 30 * time.Second

	// The memory of a process is looked at more often while it has calls.
	memoryCheckInterval     = 100 * time.Millisecond
	idleMemoryCheckInterval = time.Second

	pingInterval = 10 * time.Second
	pingTimeout  = 5 * time.Second
)

var (
	errRefused  = errors.New("refused")
	errStopped  = errors.New("the plugin host has stopped")
	errUnwanted = errors.New("it offers nothing that is wanted here")
)

// identity tells one content of a file from the next without reading it.
type identity struct {
	device, inode uint64
	size          int64
	modified      time.Time
}

// file is one plugin program: an executable in a folder of plugin.path, and the process that runs it.
type file struct {
	host *Host
	path string
	log  *zap.Logger
	// again has room for one call that is made a second time.
	again chan struct{}

	mu       sync.Mutex
	identity identity
	sum      string // SHA-256 in hexadecimal of what was started last
	running  *process
	starting chan struct{} // closed when the attempt has ended; nil when there is none
	offers   []offer       // as of the last start that succeeded
	tasks    int           // processes of connectors' tasks
	starts   int
	failures int // in a row: starts and processes that ended by themselves, without a good call in between
	notUntil time.Time
	fault    error // of the last start or process; nil when it works
	unwanted bool  // it was started and offers nothing that is wanted
}

func (f *file) base() string { return filepath.Base(f.path) }

// acquire returns the running process, started if need be, with a call counted; release ends the call.
func (f *file) acquire(ctx context.Context) (*process, error) {
	for {
		f.mu.Lock()
		f.checkIdentity()
		if p := f.running; p != nil && p.runner.ended() {
			f.noteEnd(p)
		}
		if p := f.running; p != nil {
			p.calls++
			f.mu.Unlock()
			return p, nil
		}
		if f.unwanted {
			f.mu.Unlock()
			return nil, fmt.Errorf("%s: %w", f.base(), errUnwanted)
		}
		if wait := time.Until(f.notUntil); wait > 0 && f.starting == nil {
			fault := f.fault
			f.mu.Unlock()
			if err := f.host.pause(ctx, wait); err != nil {
				return nil, fmt.Errorf("%s will be started again in %v (%w), after: %w", f.base(), wait.Round(time.Millisecond), err, fault)
			}
			continue
		}
		if f.starting == nil {
			f.starting = make(chan struct{})
			if !f.host.spawn(f.start) {
				f.starting = nil
				f.mu.Unlock()
				return nil, errStopped
			}
		}
		started := f.starting
		f.mu.Unlock()
		select {
		case <-started:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is not started yet: %w", f.base(), ctx.Err())
		}
		f.mu.Lock()
		fault := f.fault
		f.mu.Unlock()
		if fault != nil {
			return nil, fault
		}
	}
}

// checkIdentity has the next call go to a new process when the file is another one; calls under way end in the old one.
func (f *file) checkIdentity() {
	now, err := identify(f.path)
	if err != nil || now == f.identity || f.starting != nil {
		return // a file that is gone is being replaced, or will be unloaded by the next scan
	}
	f.identity = now
	f.failures, f.notUntil, f.fault, f.unwanted = 0, time.Time{}, nil, false
	if f.running != nil {
		f.log.Info("plugin has changed, reloading it")
		f.retire(f.running)
	}
}

// retire takes a process from use; it ends when its calls have. f.mu is held.
func (f *file) retire(p *process) {
	if f.running == p {
		f.running = nil
	}
	if p.retired {
		return
	}
	p.retired = true
	if p.calls == 0 {
		f.host.spawn(p.stop)
	}
}

func (f *file) release(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.calls--
	if p.retired && p.calls == 0 {
		f.host.spawn(p.stop)
	}
}

// replace has further calls go to a new process, since a call found this one hanging.
func (f *file) replace(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !p.retired {
		f.failed(errors.New("a call got no answer in time"))
	}
	f.retire(p)
}

// succeeded forgets earlier failures.
func (f *file) succeeded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = 0
}

// failed counts a failure and sets when the next start may be. f.mu is held.
func (f *file) failed(err error) {
	f.fault = err
	f.failures++
	if f.failures > 1 {
		f.notUntil = time.Now().Add(min(firstBackoff<<min(f.failures-2, 20), longestBackoff))
	}
}

// start makes one attempt.
func (f *file) start() {
	p, sum, err := f.attempt()
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.starting)
	f.starting, f.sum = nil, sum
	if err != nil {
		f.failed(fmt.Errorf("%s cannot be started: %w", f.base(), err))
		if f.host.ctx.Err() == nil {
			f.log.Error("plugin does not start", zap.Error(err))
		}
		return
	}
	f.running, f.offers, f.fault = p, p.offers, nil
	if f.unwanted = !f.host.wants(p.offers); f.unwanted {
		f.log.Info("plugin offers nothing that is wanted here")
		f.retire(p)
		return
	}
	f.starts++
	if f.starts > 1 {
		f.host.metrics.restarts.WithLabelValues(f.base()).Inc()
	}
	names := make([]string, len(p.offers))
	for i, o := range p.offers {
		names[i] = o.name
	}
	f.log.Info("plugin started", zap.String("pid", p.runner.ID()), zap.Strings("offers", names), zap.String("sha256", sum))
}

// attempt starts a process, of which watch takes care.
func (f *file) attempt() (*process, string, error) {
	id, err := identify(f.path)
	if err != nil {
		return nil, "", err
	}
	f.mu.Lock()
	f.identity = id
	f.mu.Unlock()
	sum, err := f.verify()
	if err != nil {
		return nil, sum, err
	}
	p, err := f.launch(f.host.ctx, environment(), f.log)
	if err != nil {
		return nil, sum, err
	}
	if !f.host.spawn(func() { f.watch(p) }) {
		p.stop()
		return nil, sum, errStopped
	}
	return p, sum, nil
}

// verify returns the checksum, and says whether the file may run with it.
func (f *file) verify() (string, error) {
	sum, err := checksum(f.path)
	if err != nil {
		return "", err
	}
	return sum, f.host.pinned(f.base(), sum)
}

// launch starts a process, of which its caller takes care. abort ends the attempt.
func (f *file) launch(abort context.Context, environment []string, log *zap.Logger) (*process, error) {
	return startProcess(abort, f.path, f.host.sockets.Path, environment, f.host.config.StartTimeout, log)
}

// watch stops a process with the host, ends one that takes too much memory, replaces one that gives no sign of life, and notes its end.
func (f *file) watch(p *process) {
	memory := time.NewTimer(memoryCheckInterval)
	defer memory.Stop()
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	for {
		select {
		case <-p.runner.exited:
			f.ended(p)
			return
		case <-f.host.ctx.Done():
			p.stop()
			return
		case <-memory.C:
			p.checkMemory(f.host.config.MaxMemoryBytes)
			if _, idle := f.look(p); idle {
				memory.Reset(idleMemoryCheckInterval)
			} else {
				memory.Reset(memoryCheckInterval)
			}
		case <-ping.C:
			if current, _ := f.look(p); current {
				f.ping(p)
			}
		}
	}
}

// look says whether a process is the one that gets calls, and whether it has none.
func (f *file) look(p *process) (current, idle bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running == p, p.calls == 0
}

// checkMemory ends a process that takes too much.
func (p *process) checkMemory(most int64) {
	if used := p.runner.residentBytes(); used > most {
		p.runner.kill(fmt.Sprintf("it uses %d bytes of memory, %d are allowed (plugin.memory.max.bytes)", used, most))
	}
}

func (f *file) ping(p *process) {
	ctx, cancel := context.WithTimeout(f.host.ctx, pingTimeout)
	defer cancel()
	if err := p.ping(ctx); err != nil && f.host.ctx.Err() == nil {
		f.log.Warn("plugin gives no sign of life, replacing it", zap.Error(err))
		f.replace(p)
	}
}

// ended notes that a process has ended, and frees what go-plugin has of it.
func (f *file) ended(p *process) {
	f.mu.Lock()
	f.noteEnd(p)
	f.mu.Unlock()
	p.stop()
}

// noteEnd takes a process that has ended by itself from use. f.mu is held.
func (f *file) noteEnd(p *process) {
	if p.retired || f.host.ctx.Err() != nil {
		return
	}
	p.retired, p.crowded = true, p.calls > 1
	f.running = nil
	err := fmt.Errorf("%s ended: %s", f.base(), p.epitaph())
	f.failed(err)
	f.log.Error("plugin process ended", zap.Error(err), zap.String("pid", p.runner.ID()))
}

func (f *file) wasCrowded(p *process) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return p.crowded
}

// epitaph says why a process has ended.
func (p *process) epitaph() string {
	text := p.runner.ending()
	if words := p.output.lastWords(); words != "" {
		text += "; its last words: " + words
	}
	return text
}

// unload ends the process when its calls have ended; the file is gone.
func (f *file) unload() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running != nil {
		f.retire(f.running)
	}
}

func (f *file) state() string {
	switch {
	case f.running != nil:
		return stateRunning
	case errors.Is(f.fault, errRefused):
		return stateRefused
	case f.fault != nil:
		return stateFailed
	}
	return stateStopped
}

// offering returns what the file says of a plugin.
func (f *file) offering(key offerKey) (offer, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.offers, func(o offer) bool { return o.kind == key.kind && o.name == key.name })
	if i < 0 {
		return offer{}, false
	}
	return f.offers[i], true
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// wants says whether something is offered that is.
func (h *Host) wants(offers []offer) bool {
	return len(h.config.Kinds) == 0 || slices.ContainsFunc(offers, func(o offer) bool { return slices.Contains(h.config.Kinds, o.kind) })
}

// executable says whether an entry of a folder is a plugin program.
func executable(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
