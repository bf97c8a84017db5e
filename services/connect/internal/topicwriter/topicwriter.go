// Package topicwriter writes the internal topics of Connect: records by key to the partition that Kafka's own producer would choose, acknowledged by all
// in-sync replicas, alone or all of them in a transaction.
package topicwriter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config says which topic is written and how.
type Config struct {
	Topic string
	// TransactionalID makes each Write a transaction. A writer that claims the topic with the same id ends those of earlier ones.
	TransactionalID string
	// Timeout bounds a Write and a Claim.
	Timeout time.Duration
	// Options are those of the client: where the brokers are, and how to speak to them.
	Options []kgo.Opt
}

var (
	// ErrFenced is wrapped by what Write says when another writer has claimed the topic with the same transactional id.
	ErrFenced = errors.New("another worker writes the topic now")
	// ErrUnclaimed is what Write says of a topic that has to be claimed first: before the first Claim, and after a Write that has failed, since to begin
	// again ends whoever has claimed it meanwhile.
	ErrUnclaimed = errors.New("the worker has not claimed the topic")
)

// Record is a record to be written; a nil value is a tombstone.
type Record struct {
	Key, Value []byte
}

// Writer writes from any goroutine, one Write at a time.
type Writer struct {
	config Config

	turn   chan struct{} // holds a value while somebody uses client
	client *kgo.Client   // nil until it is needed
}

// New returns a writer that has not spoken to any broker yet. It has to be closed.
func New(c Config) *Writer { return &Writer{config: c, turn: make(chan struct{}, 1)} }

// await has everybody else wait until the func that it returns is called.
func (w *Writer) await(ctx context.Context) (done func(), err error) {
	select {
	case w.turn <- struct{}{}:
		return func() { <-w.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("topic %q: others write it: %w", w.config.Topic, ctx.Err())
	}
}

// Claim makes this writer the one with its transactional id: earlier ones can write no more from now on. Without such an id it does nothing.
func (w *Writer) Claim(ctx context.Context) error {
	if w.config.TransactionalID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.config.Timeout)
	defer cancel()
	done, err := w.await(ctx)
	if err != nil {
		return err
	}
	defer done()
	w.drop()
	return w.open(ctx)
}

// open makes the client. In a transactional one the producer id is fetched at once, as that is what ends earlier writers.
func (w *Writer) open(ctx context.Context) error {
	options := append([]kgo.Opt{
		kgo.DefaultProduceTopic(w.config.Topic), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
	}, w.config.Options...)
	if w.config.TransactionalID != "" {
		options = append(options, kgo.TransactionalID(w.config.TransactionalID))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return fmt.Errorf("topic %q: %w", w.config.Topic, err)
	}
	if w.config.TransactionalID != "" {
		if _, _, err := client.ProducerID(ctx); err != nil {
			client.Close()
			return fmt.Errorf("topic %q: transactional id %q: %w", w.config.Topic, w.config.TransactionalID, err)
		}
	}
	w.client = client
	return nil
}

// drop gives the client up.
func (w *Writer) drop() {
	if w.client != nil {
		w.client.Close()
		w.client = nil
	}
}

// Write appends records in their order, those of a partition at least, and returns once they are acknowledged. Without a transaction some of them may be
// in the topic after an error.
func (w *Writer) Write(ctx context.Context, records []Record) error {
	if len(records) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.config.Timeout)
	defer cancel()
	done, err := w.await(ctx)
	if err != nil {
		return err
	}
	defer done()
	if w.client == nil {
		if w.config.TransactionalID != "" {
			return fmt.Errorf("write to topic %q: %w", w.config.Topic, ErrUnclaimed)
		}
		if err := w.open(ctx); err != nil {
			return err
		}
	}
	if err = w.produce(ctx, records); err == nil {
		return nil
	}
	// What the client still holds must not come after what is written next.
	w.drop()
	if errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced) {
		err = fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return fmt.Errorf("write to topic %q: %w", w.config.Topic, errors.Join(err, ctx.Err()))
}

func (w *Writer) produce(ctx context.Context, records []Record) error {
	all := make([]*kgo.Record, len(records))
	for i, r := range records {
		all[i] = &kgo.Record{Key: r.Key, Value: r.Value}
	}
	// Of a record that was sent the client waits for the outcome, however long that takes, unless it is closed.
	closed := make(chan struct{})
	open := context.AfterFunc(ctx, func() {
		defer close(closed)
		w.client.Close()
	})
	defer func() {
		if !open() {
			<-closed
		}
	}()
	if w.config.TransactionalID == "" {
		return w.client.ProduceSync(ctx, all...).FirstErr()
	}
	if err := w.client.BeginTransaction(); err != nil {
		return err
	}
	err := w.client.ProduceSync(ctx, all...).FirstErr()
	if err == nil {
		return w.client.EndTransaction(ctx, kgo.TryCommit)
	}
	return errors.Join(err, w.client.EndTransaction(ctx, kgo.TryAbort))
}

// Close ends the client, once whoever writes is done.
func (w *Writer) Close() {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	w.drop()
}
