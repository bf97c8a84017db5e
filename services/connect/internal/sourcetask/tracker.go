package sourcetask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
)

const (
	// maxHeldRecords bounds the records that are remembered: those that are being produced, and those whose offset or acknowledgement waits.
	maxHeldRecords = 20_000
	// maxHeldBytes bounds the keys, values and headers that are being produced, as buffer.memory of Kafka's producer does. One record may be larger.
	maxHeldBytes = 32 << 20
)

// tracker knows what has become of each record from when it is handed to the producer on.
type tracker struct {
	// wantsAcks says that acks are kept, and keepsRoom that records take room until theirs is taken.
	wantsAcks, keepsRoom bool

	mu         sync.Mutex
	submitted  *offsets.Submitted
	partitions map[string]int // by their JSON
	acks       []remote.Ack
	bytes      int
	lost       int // records that stay without an answer
	// spare is what acks was before it was last taken.
	spare []remote.Ack

	// room, acked and settled have an element after there is more room, an ack, or no record that has not been answered.
	room, acked, settled chan struct{}
}

func newTracker(wantsAcks, keepsRoom bool) *tracker {
	return &tracker{wantsAcks: wantsAcks, keepsRoom: keepsRoom, submitted: offsets.NewSubmitted(), partitions: map[string]int{},
		room: make(chan struct{}, 1), acked: make(chan struct{}, 1), settled: make(chan struct{}, 1)}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// partition is the number of a source's partition.
func (t *tracker) partition(text json.RawMessage) (int, error) {
	if n, ok := t.partitions[string(text)]; ok {
		return n, nil
	}
	var m offsets.Map
	if text != nil {
		var err error
		if m, err = offsets.ParseMap(text); err != nil {
			return 0, fmt.Errorf("partition %.200s of the source: %w", text, err)
		}
	}
	n := t.submitted.Partition(m)
	t.partitions[string(text)] = n
	return n, nil
}

// admit takes a record of a batch on once there is room for that many bytes. ok is false when ctx ended first.
func (t *tracker) admit(ctx context.Context, f *flight, bytes int) (ok bool, err error) {
	for {
		admitted, err := t.try(f, bytes)
		if admitted || err != nil {
			return admitted, err
		}
		select {
		case <-t.room:
		case <-ctx.Done():
			return false, nil
		}
	}
}

func (t *tracker) try(f *flight, bytes int) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.submitted.Held()
	if t.keepsRoom {
		held = max(held, t.submitted.Unacked()+len(t.acks))
	}
	if held >= maxHeldRecords || t.bytes > 0 && t.bytes+bytes > maxHeldBytes {
		return false, nil
	}
	partition, offset := f.batch.Position(f.place)
	n, err := t.partition(partition)
	if err != nil {
		return false, err
	}
	f.submission, f.bytes = t.submitted.Submit(n, offset), bytes
	t.bytes += bytes
	return true, nil
}

// done says that a record is stored, or was left out: then stored is nil. It reports whether it was the last of its batch.
func (t *tracker) done(f *flight, stored *plugin.RecordMetadata) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.submitted.Ack(f.submission)
	if t.wantsAcks {
		t.acks = append(t.acks, remote.Ack{Record: f.batch.First + uint64(f.place), Stored: stored})
		notify(t.acked)
	}
	return t.over(f)
}

// lose says that a record could not be produced and is to be read again: no offset after it is stored any more.
func (t *tracker) lose(f *flight) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost++
	return t.over(f)
}

func (t *tracker) over(f *flight) (last bool) {
	t.bytes -= f.bytes
	notify(t.room)
	if t.submitted.Unacked() == t.lost {
		notify(t.settled)
	}
	f.batch.left--
	return f.batch.left == 0
}

// takeAcks returns the acks that have come since, which are the caller's until the next call.
func (t *tracker) takeAcks() []remote.Ack {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.acks
	t.acks, t.spare = t.spare[:0], taken
	notify(t.room)
	return taken
}

// unstored says that records which are acknowledged and were not taken are not stored after all: their transaction was aborted.
func (t *tracker) unstored() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.acks {
		t.acks[i].Stored = nil
	}
}

// take returns the offsets that may be stored, and the acks up to now. acked records are among those whose offsets are stored, unless one before them
// in their partition is not.
func (t *tracker) take() ([]offsets.Entry, []remote.Ack, error) {
	acks := t.takeAcks()
	t.mu.Lock()
	defer t.mu.Unlock()
	entries, err := t.submitted.Take()
	return entries, acks, err
}

// giveBack is for offsets that could not be stored.
func (t *tracker) giveBack(entries []offsets.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.submitted.Return(entries)
}

func (t *tracker) unanswered() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.submitted.Unacked() - t.lost
}

// settle waits until what has become of each record is known.
func (t *tracker) settle(ctx context.Context) error {
	for {
		n := t.unanswered()
		if n == 0 {
			return nil
		}
		select {
		case <-t.settled:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%d records have not been answered by the brokers", n), ctx.Err())
		}
	}
}
