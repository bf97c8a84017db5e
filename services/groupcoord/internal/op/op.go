// Package op is one operation on a shard of groups: what it may read, and what it brings about.
//
// State that must survive changes by Emit alone, which replays the record at once, so that the rest of an operation sees it.
package op

import (
	"time"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// Op is one operation. It is used by one goroutine and not kept.
type Op struct {
	Now      time.Time
	Image    *metadata.Image
	Settings *Settings

	step   coordinator.Step
	bytes  int
	replay func(schema.Record)
	timers *Timers
}

const (
	// batchOverheadBytes and recordOverheadBytes are at least what a batch and each of its records take apart from keys and values.
	batchOverheadBytes  = 128
	recordOverheadBytes = 32
)

// New begins an operation. replay applies a record to the shard.
func New(now time.Time, im *metadata.Image, s *Settings, timers *Timers, replay func(schema.Record)) *Op {
	return &Op{Now: now, Image: im, Settings: s, timers: timers, replay: replay, step: coordinator.Step{Producer: coordinator.NoProducer}}
}

// Emit replays a record and has it written.
func (o *Op) Emit(r schema.Record) {
	o.replay(r)
	encoded := schema.Encode(r)
	o.step.Records = append(o.step.Records, encoded)
	o.bytes += len(encoded.Key) + len(encoded.Value) + recordOverheadBytes
}

// Room says whether a record of so many bytes, key and value, can still be emitted: an operation's records are one batch, and the
// log takes none that is larger than message.max.bytes.
func (o *Op) Room(recordBytes int) bool {
	return o.bytes+recordBytes+recordOverheadBytes+batchOverheadBytes <= o.Settings.Broker.Int("message.max.bytes")
}

// InTransaction makes the operation's records part of a transaction.
func (o *Op) InTransaction(p coordinator.Producer) { o.step.Producer = p }

// Answer ends a request's wait once the operation's records are committed. A zero ticket is nobody's.
func (o *Op) Answer(t coordinator.Ticket, response any) {
	if t != 0 {
		o.step.Answers = append(o.step.Answers, coordinator.Answer{Ticket: t, Response: response})
	}
}

// Job has the shell do something whose result comes back as an operation.
func (o *Op) Job(job any) { o.step.Jobs = append(o.step.Jobs, job) }

// SetTimer has the shard called at a time, in place of an earlier setting of the same key.
func (o *Op) SetTimer(k TimerKey, at time.Time) { o.timers.Set(k, at) }

// ClearTimer forgets a timer that may have been set.
func (o *Op) ClearTimer(k TimerKey) { o.timers.Clear(k) }

// Step is what the operation has brought about.
func (o *Op) Step() coordinator.Step { return o.step }
