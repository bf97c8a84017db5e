package worker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/topicwriter"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// board is what this worker has to say of states and used topics and has not written yet: the newest for each key, in the order in which it came up. So
// it holds no more than there are connectors, tasks and topics, however long no broker takes it.
type board struct {
	w *Worker

	mu    sync.Mutex
	order []string
	notes map[string]note
	wakes chan struct{}
	empty chan struct{} // closed while there is nothing
	busy  bool          // a write is under way

	// forgotten counts the topics that were reset: tasks say then again what they use.
	forgotten atomic.Int64
}

// note is a record to be written. A safe one is left out when another worker has written in a later generation.
type note struct {
	record status.Record
	item   work.Item
	state  status.Status
	safe   bool
}

func newBoard(w *Worker) *board {
	b := &board{w: w, notes: map[string]note{}, wakes: make(chan struct{}, 1), empty: make(chan struct{})}
	close(b.empty)
	return b
}

// say sets what state something is in, as of the generation of the group that this worker knows.
func (b *board) say(item work.Item, state status.State, trace, version string) {
	b.w.metrics.say(item, state)
	s := status.Status{State: state, Trace: trace, WorkerID: b.w.id, Generation: b.w.crew.generation(), Version: version}
	b.put(note{record: status.StatusRecord(item, s), item: item, state: s, safe: state == status.Unassigned || state == status.Failed})
}

// using returns what a task tells of the topics of its records, from one goroutine. Each is noted once, and again after topics were reset.
func (b *board) using(item work.Item) func(topic string) {
	forgotten, known := b.forgotten.Load(), map[string]bool{}
	return func(topic string) {
		if now := b.forgotten.Load(); now != forgotten {
			forgotten = now
			clear(known)
		}
		if known[topic] {
			return
		}
		known[topic] = true
		if !b.w.herder.Uses(item.Connector, topic) {
			b.put(note{record: status.TopicRecord(status.Topic{Name: topic, Connector: item.Connector, Task: item.Task, DiscoveredMs: time.Now().UnixMilli()})})
		}
	}
}

func (b *board) put(n note) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.order) == 0 && !b.busy {
		b.empty = make(chan struct{})
	}
	if _, ok := b.notes[n.record.Key]; !ok {
		b.order = append(b.order, n.record.Key)
	}
	b.notes[n.record.Key] = n
	select {
	case b.wakes <- struct{}{}:
	default:
	}
}

// take returns all notes, which are the caller's to write.
func (b *board) take() []note {
	b.mu.Lock()
	defer b.mu.Unlock()
	notes := make([]note, len(b.order))
	for i, key := range b.order {
		notes[i] = b.notes[key]
	}
	b.order = nil
	clear(b.notes)
	b.busy = len(notes) > 0
	return notes
}

// wrote ends what take began. Notes that could not be written come again, unless there is something newer.
func (b *board) wrote(failed []note) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = false
	var order []string
	for _, n := range failed {
		if _, newer := b.notes[n.record.Key]; !newer {
			order = append(order, n.record.Key)
			b.notes[n.record.Key] = n
		}
	}
	b.order = append(order, b.order...)
	if len(b.order) == 0 {
		close(b.empty)
	}
}

// run writes until ctx ends.
func (b *board) run(ctx context.Context) error {
	for ctx.Err() == nil {
		notes := b.take()
		if len(notes) == 0 {
			select {
			case <-b.wakes:
			case <-ctx.Done():
			}
			continue
		}
		if err := b.write(ctx, notes); err != nil {
			b.wrote(notes)
			b.w.log.Warn("states cannot be written yet", zap.Int("states", len(notes)), zap.Error(err))
			pause(ctx, retryBackoff)
			continue
		}
		b.wrote(nil)
	}
	return nil
}

func (b *board) write(ctx context.Context, notes []note) error {
	if slices.ContainsFunc(notes, func(n note) bool { return n.safe }) {
		// A worker that has stood still does not know yet who runs its tasks now, and would call them failed.
		if err := b.w.topics.status.reader.ReadToEnd(ctx); err != nil {
			return err
		}
	}
	var records []topicwriter.Record
	for _, n := range notes {
		if !n.safe || b.w.herder.MayWriteStatus(n.item, n.state) {
			records = append(records, topicwriter.Record{Key: []byte(n.record.Key), Value: n.record.Value})
		}
	}
	return b.w.topics.status.writer.Write(ctx, records)
}

// flush waits until all is written, for so long at most.
func (b *board) flush(most time.Duration) {
	b.mu.Lock()
	empty := b.empty
	b.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
		b.w.log.Warn("the last states could not be written")
	}
}
