package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// taskPingTimeout is how long the process of a task may give no sign of life: longer than one that is only asked, since to
// start it anew costs more than to wait for a machine that has too much to do.
const taskPingTimeout = 30 * time.Second

// taskMemoryCheckInterval is how often the memory of a task's process is looked at: there may be hundreds.
const taskMemoryCheckInterval = time.Second

// ErrUnknownConnector is what Connector returns for a class that no program offers.
var ErrUnknownConnector = errors.New("unknown connector")

// Connector is a source or sink that a program offers. It may be used from several goroutines. Each task has a process of
// its own, as does Watch; the other calls share one.
type Connector struct {
	host *Host
	file *file
	key  offerKey

	// Source says whether it is a source; otherwise it is a sink.
	Source bool
	// Name, Version and Doc are what the program says.
	Name, Version, Doc string
	// Aliases are full names of Java classes that stand for it.
	Aliases []string
}

// Connectors are those that the programs offer, in the order in which they count; none whose name one before it has.
func (h *Host) Connectors() []*Connector {
	var all []*Connector
	for _, f := range h.snapshot() {
		f.mu.Lock()
		offers := f.offers
		f.mu.Unlock()
		for _, o := range offers {
			source := o.kind == pluginpb.Kind_KIND_SOURCE
			if !source && o.kind != pluginpb.Kind_KIND_SINK || slices.ContainsFunc(all, func(c *Connector) bool { return c.Name == o.name }) {
				continue
			}
			all = append(all, &Connector{host: h, file: f, key: offerKey{o.kind, o.name}, Source: source, Name: o.name, Version: o.version, Doc: o.doc, Aliases: o.aliases})
		}
	}
	return all
}

// Connector finds the connector that a configuration calls class: by its name, by an alias, or by the simple name of an
// alias, with or without "Connector" at its end.
func (h *Host) Connector(ctx context.Context, class string) (*Connector, error) {
	if c := h.ofClass(class); c != nil {
		return c, nil
	}
	if err := h.scan(ctx); err != nil {
		return nil, fmt.Errorf("looking for connector %q in plugin.path: %w", class, err)
	}
	if c := h.ofClass(class); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w %q: %w", ErrUnknownConnector, class, h.notFound(pluginpb.Kind_KIND_SOURCE, pluginpb.Kind_KIND_SINK))
}

func (h *Host) ofClass(class string) *Connector {
	all := h.Connectors()
	for _, matches := range []func(*Connector) bool{
		func(c *Connector) bool { return c.Name == class },
		func(c *Connector) bool { return slices.Contains(c.Aliases, class) },
		func(c *Connector) bool {
			return slices.ContainsFunc(c.Aliases, func(alias string) bool { return isSimple(class, alias) })
		},
	} {
		if i := slices.IndexFunc(all, matches); i >= 0 {
			return all[i]
		}
	}
	return nil
}

// isSimple says whether a name is the last part of a Java class's, with or without "Connector" at its end.
func isSimple(name, class string) bool {
	simple := class[strings.LastIndexByte(class, '.')+1:]
	return name == simple || name == strings.TrimSuffix(simple, "Connector")
}

func (c *Connector) on(p *process, owner remote.Process) *remote.Connector {
	return &remote.Connector{Client: pluginpb.NewConnectorClient(p.conn), Name: c.Name, MaxAnswerBytes: c.host.config.MaxAnswerBytes, Process: owner}
}

// shared makes a call to the process that all calls share.
func shared[T any](ctx context.Context, c *Connector, call func(context.Context, *remote.Connector) (T, error)) (T, error) {
	var answer T
	err := c.host.call(ctx, c.key, func(ctx context.Context, p *process) (err error) {
		answer, err = call(ctx, c.on(p, remote.Process{}))
		return err
	})
	return answer, err
}

// Define asks for the definition, which is in order.
func (c *Connector) Define(ctx context.Context) (remote.Definition, error) {
	return shared(ctx, c, func(ctx context.Context, r *remote.Connector) (remote.Definition, error) { return r.Define(ctx) })
}

// Validate holds a configuration against the definition and, if nothing is wrong with it there, asks the connector.
func (c *Connector) Validate(ctx context.Context, config map[string]string) (remote.Validation, error) {
	return shared(ctx, c, func(ctx context.Context, r *remote.Connector) (remote.Validation, error) {
		return r.Validate(ctx, config)
	})
}

// TaskConfigs asks for the configurations of at most maxTasks tasks; more may be answered.
func (c *Connector) TaskConfigs(ctx context.Context, config map[string]string, maxTasks int) ([]map[string]string, error) {
	return shared(ctx, c, func(ctx context.Context, r *remote.Connector) ([]map[string]string, error) {
		return r.TaskConfigs(ctx, config, maxTasks)
	})
}

// AlterSourceOffsets tells a source of offsets that users set, before they are stored. It returns whether offsets that the
// connector itself keeps follow.
func (c *Connector) AlterSourceOffsets(ctx context.Context, config map[string]string, offsets []plugin.SourceOffset) (bool, error) {
	return shared(ctx, c, func(ctx context.Context, r *remote.Connector) (bool, error) {
		return r.AlterSourceOffsets(ctx, config, offsets)
	})
}

// AlterSinkOffsets tells a sink of offsets that users set, before they are committed; -1 stands for none.
func (c *Connector) AlterSinkOffsets(ctx context.Context, config map[string]string, offsets map[plugin.TopicPartition]int64) (bool, error) {
	return shared(ctx, c, func(ctx context.Context, r *remote.Connector) (bool, error) {
		return r.AlterSinkOffsets(ctx, config, offsets)
	})
}

// Watch calls changed when TaskConfigs would answer something else, until ctx ends, and returns nil then. name is what users
// call the connector.
func (c *Connector) Watch(ctx context.Context, name string, config map[string]string, changed func()) error {
	r, err := c.launch(ctx, zap.String("connector", name))
	if err != nil {
		return err
	}
	return r.Watch(ctx, config, changed)
}

// StartSource starts a task of a source in a process of its own.
func (c *Connector) StartSource(ctx context.Context, t remote.Task) (*remote.SourceTask, error) {
	r, err := c.launch(ctx, zap.String("connector", t.Connector), zap.Int("task", t.Number))
	if err != nil {
		return nil, err
	}
	return r.StartSource(ctx, t)
}

// StartSink starts a task of a sink in a process of its own.
func (c *Connector) StartSink(ctx context.Context, t remote.Task) (*remote.SinkTask, error) {
	r, err := c.launch(ctx, zap.String("connector", t.Connector), zap.Int("task", t.Number))
	if err != nil {
		return nil, err
	}
	return r.StartSink(ctx, t)
}

// launch starts a process that serves one stream, and ends with it.
func (c *Connector) launch(ctx context.Context, who ...zap.Field) (*remote.Connector, error) {
	h, f := c.host, c.file
	abort, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	// When a node gets hundreds of tasks at once, each has its whole time to start.
	select {
	case h.launching <- struct{}{}:
		defer func() { <-h.launching }()
	case <-abort.Done():
	}
	p, err := f.launchPinned(abort, f.log.With(who...))
	switch {
	case h.ctx.Err() != nil:
		err = errors.Join(errStopped, err)
	case err != nil:
		err = fmt.Errorf("%s cannot be started: %w", f.base(), err)
	case !p.has(c.key.kind, c.key.name):
		err = fmt.Errorf("%s has changed and no longer offers %s", f.base(), c.key)
	}
	t := &taskProcess{file: f, process: p, gone: make(chan struct{})}
	t.ctx, t.end = context.WithCancel(h.ctx)
	if err == nil && !h.spawn(t.attend) {
		err = errStopped
	}
	if err != nil {
		t.end()
		if p != nil {
			p.stop()
		}
		return nil, err
	}
	return c.on(p, remote.Process{Explain: t.explain, End: t.stop}), nil
}

// launchPinned starts a process. Its file is read for its checksum only where that decides: tasks are started often.
func (f *file) launchPinned(abort context.Context, log *zap.Logger) (*process, error) {
	if err := abort.Err(); err != nil {
		return nil, err
	}
	if len(f.host.config.Checksums) > 0 {
		if _, err := f.verify(); err != nil {
			return nil, err
		}
	}
	return f.launch(abort, taskEnvironment(), log)
}

// taskProcess is the process of one task, or of one Watch.
type taskProcess struct {
	file    *file
	process *process
	ctx     context.Context // ends when the process is to end, the host's at the latest
	end     context.CancelFunc
	gone    chan struct{} // closed when nothing is left of it
}

// attend ends the process with the host, or when it is to end, takes too much memory or gives no sign of life.
func (t *taskProcess) attend() {
	t.count(1)
	defer close(t.gone)
	defer t.count(-1)
	defer t.process.stop()
	memory := time.NewTicker(taskMemoryCheckInterval)
	defer memory.Stop()
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	for {
		select {
		case <-t.process.runner.exited:
			return
		case <-t.ctx.Done():
			return
		case <-memory.C:
			t.process.checkMemory(t.file.host.config.MaxMemoryBytes)
		case <-ping.C:
			t.ping()
		}
	}
}

func (t *taskProcess) count(n int) {
	t.file.mu.Lock()
	defer t.file.mu.Unlock()
	t.file.tasks += n
}

func (t *taskProcess) ping() {
	ctx, cancel := context.WithTimeout(t.ctx, taskPingTimeout)
	defer cancel()
	if err := t.process.ping(ctx); errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.process.runner.kill(fmt.Sprintf("it gave no sign of life for %v (%v)", taskPingTimeout, err))
	}
}

// stop ends the process.
func (t *taskProcess) stop() {
	t.end()
	<-t.gone
}

// explain says why a stream of the process has broken.
func (t *taskProcess) explain(err error) error {
	s, ok := status.FromError(err)
	if ok && s.Code() == codes.Unavailable {
		timer := time.NewTimer(exitGrace)
		defer timer.Stop()
		select {
		case <-t.process.runner.exited:
		case <-t.ctx.Done():
		case <-timer.C:
		}
	}
	switch {
	case t.ctx.Err() != nil:
		return errStopped
	case t.process.runner.ended():
		return fmt.Errorf("%s crashed: %s", t.file.base(), t.process.epitaph())
	case ok:
		return errors.New(s.Message())
	}
	return err
}
