package produce

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

// sender sends records in order and keeps count of what was acknowledged.
type sender struct {
	client *kgo.Client
	topic  string
	rate   float64 // records a second; 0: no limit

	acknowledged bool // whether servers tell offsets

	started time.Time

	// reading ends when the command is interrupted; what was read by then is still delivered. Both
	// end at the first record that failed.
	reading, delivery context.Context
	stop              context.CancelFunc

	mu         sync.Mutex
	fault      error
	partitions map[int32]*partition
	bytes      int64
}

type partition struct {
	records     int64
	first, last int64 // offsets; -1: not told, as with acks=0
}

func newSender(ctx context.Context, client *kgo.Client, topic string, rate float64, acknowledged bool) *sender {
	s := &sender{client: client, topic: topic, rate: rate, acknowledged: acknowledged, started: time.Now(), partitions: make(map[int32]*partition)}
	var stopReading, stopDelivery context.CancelFunc
	s.reading, stopReading = context.WithCancel(ctx)
	s.delivery, stopDelivery = context.WithCancel(context.WithoutCancel(ctx))
	s.stop = func() {
		stopReading()
		stopDelivery()
	}
	return s
}

// run hands all records to the client, or returns why it stopped. Reading stdin cannot be
// interrupted, so it happens on a goroutine that is left behind when reading ends: the process ends
// too.
func (s *sender) run(ctx context.Context, records iter.Seq2[*kgo.Record, error]) error {
	done := make(chan error, 1)
	go func() { done <- s.pump(records) }()
	select {
	case err := <-done:
		return err
	case <-s.reading.Done():
		// A failed record is told by flush; only an interruption is told here.
		return ctx.Err()
	}
}

func (s *sender) pump(records iter.Seq2[*kgo.Record, error]) error {
	n := 0
	for record, err := range records {
		if err != nil {
			return err
		}
		if !s.pace(n) || s.reading.Err() != nil {
			return nil
		}
		n++
		s.client.Produce(s.delivery, record, s.delivered(n))
	}
	return nil
}

// pace waits until the record after n others is due, and says whether it is to be sent at all.
func (s *sender) pace(n int) bool {
	if s.rate == 0 {
		return true
	}
	due := s.started.Add(time.Duration(float64(n) / s.rate * float64(time.Second)))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.reading.Done():
		return false
	}
}

func (s *sender) delivered(n int) func(*kgo.Record, error) {
	return func(record *kgo.Record, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.fail(n, err)
			return
		}
		offset := record.Offset
		if !s.acknowledged {
			offset = -1
		}
		p := s.partitions[record.Partition]
		if p == nil {
			p = &partition{first: offset}
			s.partitions[record.Partition] = p
		}
		p.records++
		p.last = offset
		s.bytes += int64(len(record.Key) + len(record.Value))
	}
}

// fail keeps the first fault. Records that were dropped because of it are no news.
func (s *sender) fail(n int, err error) {
	if s.fault != nil || errors.Is(err, context.Canceled) {
		return
	}
	if errors.Is(err, kgo.ErrRecordTimeout) {
		err = exit.With(exit.Timeout, err)
	}
	s.fault = fmt.Errorf("record %d to %q: %w", n, s.topic, exit.Answer(err, ""))
	s.stop()
}

// flush waits for what was handed to the client and returns the first fault of a record.
func (s *sender) flush(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := s.client.Flush(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return s.fault
	}
	if err != nil {
		return fmt.Errorf("records to %q were not acknowledged: %w", s.topic, err)
	}
	return nil
}
