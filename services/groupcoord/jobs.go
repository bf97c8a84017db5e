package groupcoord

import (
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/coordinator/txncheck"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/telemetry"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/consumer"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// job does what a shard asks for. It is called with the shard locked and must not wait.
func (s *Service) job(origin trace.SpanContext, id, _ int32, job any) {
	switch j := job.(type) {
	case *assignment.Input:
		asked := time.Now()
		s.asker.Ask(origin, j, s.measureLag(id, j), func(out assignment.Output, err error) {
			s.metrics.assigned(j.Assignor, time.Since(asked), err)
			s.runtime.Run(origin, id, func(m *shard.Machine, now time.Time) coordinator.Step {
				return m.Assigned(now, j, out, err)
			})
		})
	case *shard.Verification:
		s.verify(origin, id, j)
	case *consumer.AssignmentFailed:
		s.log.Warn("an assignor gave no usable answer; the group keeps its assignment and asks again",
			zap.String("group", j.Group), zap.Int32("groupEpoch", j.Epoch), zap.String("assignor", j.Assignor), zap.Error(j.Err), telemetry.SpanField(origin))
	case classic.Event:
		s.metrics.classicEvents.WithLabelValues(string(j.State)).Inc()
		s.log.Info("group changed", zap.String("group", j.Group), zap.String("state", string(j.State)),
			zap.Int32("generation", j.Generation), zap.Int("members", j.Members), zap.String("reason", j.Reason))
	default:
		s.log.Error("a shard asks for something unknown", zap.Int32("shard", id), zap.String("job", fmt.Sprintf("%T", job)))
	}
}

// verify asks the coordinator of a transaction about the shard's partition.
func (s *Service) verify(origin trace.SpanContext, id int32, v *shard.Verification) {
	t := txncheck.Transaction{ID: v.TransactionalID, ProducerID: v.Producer.ID, ProducerEpoch: v.Producer.Epoch, Add: v.Add, Origin: origin}
	s.checker.Check(t, []txncheck.Partition{{Topic: metadata.ConsumerOffsetsTopic, ID: id}}, func(errs []error) {
		s.runtime.Run(origin, id, func(m *shard.Machine, now time.Time) coordinator.Step { return m.Verified(now, v, errs[0]) })
	})
}
