package api

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// WriteMarker ends a transaction in a shard, as [markerapi.Write] wants it: the shard's owner is the only one who writes to its log.
func (s *Service) WriteMarker(origin trace.SpanContext, _ string, id int32, e record.Ending, done func(error)) {
	s.runtime.Do(origin, id, func(m *shard.Machine, now time.Time, t coordinator.Ticket) coordinator.Step {
		return m.EndTransaction(now, t, e)
	}, func(response any, err error) {
		if err == nil {
			err, _ = response.(error)
		}
		done(err)
	})
}
