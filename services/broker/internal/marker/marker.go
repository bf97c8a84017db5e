// Package marker ends transactions in the partitions that this broker leads.
package marker

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/services/broker/internal/ack"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
)

// maxWait bounds the wait for replicas; the coordinator then sends the marker again.
const maxWait = 30 * time.Second

// Service writes markers.
type Service struct {
	parts *partition.Set
	clock ack.Clock
}

// New makes a Service over the broker's partitions.
func New(parts *partition.Set) *Service { return &Service{parts: parts} }

// pending is a marker that waits for replicas.
type pending struct {
	partition *partition.Partition
	request   ack.Request
	wait      ack.Wait
}

// Write ends a transaction in a partition. done is called once the marker is committed, or with why it is not. Partitions of the
// coordinators' topics have their own writers.
func (s *Service) Write(_ trace.SpanContext, topic string, id int32, e record.Ending, done func(error)) {
	p, err := s.parts.Lookup(topic, metadata.TopicID{}, id)
	if err == nil && metadata.InternalTopic(topic) {
		err = fmt.Errorf("%s-%d is written by its coordinator only: %w", topic, id, kerr.NotLeaderForPartition)
	}
	if err != nil {
		done(err)
		return
	}
	var ended partition.Done
	defer ended.Fire()
	now := time.Now()
	info, err := p.EndTransaction(e, now.UnixMilli(), &ended)
	if err != nil {
		done(err)
		return
	}
	w := &pending{partition: p}
	w.request.Begin(func() { done(w.wait.Err) }, w.giveUp)
	w.request.Enlist(&w.wait)
	waits, err := p.Await(&w.wait, info.EndOffset)
	if waits {
		s.clock.Expect(&w.request, now.Add(maxWait))
	} else {
		w.wait.Err = err
	}
	p.TellEnded(info.EndOffset, &ended)
	w.request.Over()
}

// giveUp ends the wait at its deadline.
func (w *pending) giveUp() {
	if w.partition.GiveUp(&w.wait) {
		w.wait.Err = kerr.RequestTimedOut
		w.request.Over()
	}
}
