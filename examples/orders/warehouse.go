package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/codes"
)

// Warehouse reads committed invoices in the group of the same name until ctx ends, and takes pause for each.
func Warehouse(ctx context.Context, c Config, pause time.Duration) error {
	client, err := kgo.NewClient(c.options(
		kgo.ConsumerGroup("warehouse"), kgo.ConsumeTopics(Invoices), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.AutoCommitMarks(), kgo.AutoCommitInterval(time.Second), kgo.BlockRebalanceOnPoll(),
	)...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for {
		fetches := client.PollRecords(ctx, maxBatch)
		if ctx.Err() != nil {
			return nil
		}
		for _, e := range fetches.Errors() {
			slog.Warn("reading", "topic", e.Topic, "partition", e.Partition, "error", e.Err)
		}
		for _, r := range fetches.Records() {
			if err := ship(ctx, c, r, pause); err != nil {
				slog.Error("not shipped", "partition", r.Partition, "offset", r.Offset, "error", err)
			}
			client.MarkCommitRecords(r)
		}
		client.AllowRebalance()
	}
}

// ship takes its time over an invoice, in the trace of its order.
func ship(ctx context.Context, c Config, r *kgo.Record, pause time.Duration) error {
	_, span := c.tracer.WithProcessSpan(r)
	defer span.End()
	var i Invoice
	if err := json.Unmarshal(r.Value, &i); err != nil {
		span.SetStatus(codes.Error, err.Error())
		return fmt.Errorf("not an invoice: %w", err)
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
	slog.Info("shipped", "order", i.Order, "customer", i.Customer, "item", i.Item, "quantity", i.Quantity, "totalCents", i.TotalCents)
	return nil
}
