package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/codes"
)

// Billing reads orders in the group of the same name and writes their invoices, until ctx ends: the invoices of a batch, the orders that
// it rejects and the offsets of both are one transaction, so that each order is billed once whoever crashes. The instance tells this
// process from others of the group.
func Billing(ctx context.Context, c Config, instance string) error {
	if err := createTopics(ctx, c); err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(c.options(
		kgo.ConsumerGroup("billing"), kgo.ConsumeTopics(Orders), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.TransactionalID("billing-"+instance),
	)...)
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		fetches := session.PollRecords(ctx, maxBatch)
		if ctx.Err() != nil {
			return nil
		}
		for _, e := range fetches.Errors() {
			slog.Warn("reading", "topic", e.Topic, "partition", e.Partition, "error", e.Err)
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := billBatch(ctx, c, session, fetches.Records()); err != nil {
			return err
		}
	}
}

// billBatch bills orders in one transaction. One that is aborted, since the group moved or a write failed, is read again.
func billBatch(ctx context.Context, c Config, session *kgo.GroupTransactSession, batch []*kgo.Record) error {
	if err := session.Begin(); err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	// A batch that was begun is brought to its end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endsWithin)
	defer cancel()
	written := kgo.AbortingFirstErrPromise(session.Client())
	for _, order := range batch {
		session.Produce(ctx, invoiceOf(c, order), written.Promise())
	}
	err := written.Err()
	committed, endErr := session.End(ctx, kgo.TransactionEndTry(err == nil))
	switch {
	case endErr != nil:
		return fmt.Errorf("ending a transaction: %w", errors.Join(err, endErr))
	case !committed:
		slog.Warn("a transaction was aborted; its orders come again", "orders", len(batch), "error", err)
	default:
		slog.Info("billed", "orders", len(batch))
	}
	return nil
}

// invoiceOf is the record that comes out of an order's, in the order's trace.
func invoiceOf(c Config, order *kgo.Record) *kgo.Record {
	ctx, span := c.tracer.WithProcessSpan(order)
	defer span.End()
	invoice, err := bill(order.Value)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		slog.WarnContext(ctx, "rejected", "topic", order.Topic, "partition", order.Partition, "offset", order.Offset, "error", err)
		return &kgo.Record{Context: ctx, Topic: Rejected, Key: order.Key, Value: order.Value}
	}
	value, err := json.Marshal(invoice)
	if err != nil {
		panic(err) // of strings and numbers
	}
	return &kgo.Record{Context: ctx, Topic: Invoices, Key: order.Key, Value: value}
}
