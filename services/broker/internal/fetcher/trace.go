package fetcher

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/services/broker/internal/partition"
)

// traced makes, for each batch of a partition that the leader has named the span of, one for its copy, which began at that time.
func (f *fetcher) traced(r *replica, p *kmsg.FetchResponseTopicPartition, began time.Time) {
	ended := time.Now()
	partition.EachTraced(&p.UnknownTags, r.told.offset, r.position().offset, func(offset int64, leaders trace.SpanContext) {
		ctx := trace.ContextWithRemoteSpanContext(context.Background(), leaders)
		_, span := f.cfg.Tracer.Start(ctx, "replica append", trace.WithTimestamp(began), trace.WithAttributes(
			attribute.Int("cauce.node.id", int(f.cfg.NodeID)), attribute.Int("cauce.leader.id", int(f.from.leader)),
			attribute.String("messaging.system", "kafka"), attribute.String("messaging.destination.name", r.partition.Topic.Name),
			attribute.Int("messaging.destination.partition.id", int(r.partition.ID)), attribute.Int64("messaging.kafka.offset", offset)))
		span.End(trace.WithTimestamp(ended))
	})
}
