// Package topicwriter writes the internal topics of Connect: records by key to the partition that Kafka's own producer would choose, acknowledged by all
// in-sync replicas, alone or all of them in a transaction.
package topicwriter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config says which topic is written and how.
type Config struct {
	Topic string
	// TransactionalID makes each Write a transaction. A writer that starts with the same id ends those of earlier ones.
	TransactionalID string
	// Timeout bounds a Write, and how long a record may take on its way.
	Timeout time.Duration
	// Options are those of the client: where the brokers are, and how to speak to them.
	Options []kgo.Opt
}

// ErrFenced is wrapped by what Write says once another writer has begun with the same transactional id, until Claim.
var ErrFenced = errors.New("another worker writes the topic now")

// Record is a record to be written; a nil value is a tombstone.
type Record struct {
	Key, Value []byte
}

// Writer writes from any goroutine, one Write at a time.
type Writer struct {
	config Config

	mu     sync.Mutex
	client *kgo.Client // nil until it is needed
	// fenced is set once another writer has begun: to write again would end that one.
	fenced bool
}

// New returns a writer that has not spoken to any broker yet. It has to be closed.
func New(c Config) *Writer { return &Writer{config: c} }

// Claim makes this writer the one with its transactional id: earlier ones can write no more from now on. Without such an id it does nothing.
func (w *Writer) Claim(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.config.TransactionalID == "" {
		return nil
	}
	w.drop()
	w.fenced = false
	ctx, cancel := context.WithTimeout(ctx, w.config.Timeout)
	defer cancel()
	return w.open(ctx)
}

// open makes the client. In a transactional one the producer id is fetched at once, as that is what ends earlier writers.
func (w *Writer) open(ctx context.Context) error {
	if w.client != nil {
		return nil
	}
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

// drop gives the client up. The next Write makes another.
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fenced {
		return fmt.Errorf("write to topic %q: %w", w.config.Topic, ErrFenced)
	}
	ctx, cancel := context.WithTimeout(ctx, w.config.Timeout)
	defer cancel()
	if err := w.open(ctx); err != nil {
		return err
	}
	err := w.produce(ctx, records)
	if err == nil {
		return nil
	}
	// What the client still holds must not come after what is written next.
	w.drop()
	if errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced) {
		w.fenced = true
		err = fmt.Errorf("%w: %w", ErrFenced, err)
	}
	return fmt.Errorf("write to topic %q: %w", w.config.Topic, err)
}

func (w *Writer) produce(ctx context.Context, records []Record) error {
	all := make([]*kgo.Record, len(records))
	for i, r := range records {
		all[i] = &kgo.Record{Key: r.Key, Value: r.Value}
	}
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

// Close ends the client.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop()
}
