package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// Stage is where on its way a record has failed, by Kafka's name.
type Stage string

// The stages.
const (
	Transformation  Stage = "TRANSFORMATION"
	KeyConverter    Stage = "KEY_CONVERTER"
	ValueConverter  Stage = "VALUE_CONVERTER"
	HeaderConverter Stage = "HEADER_CONVERTER"
	TaskPut         Stage = "TASK_PUT"
	KafkaProduce    Stage = "KAFKA_PRODUCE"
)

// The classes that Kafka names for stages which are neither a converter nor a transform.
const (
	sinkTaskClass   = "org.apache.kafka.connect.sink.SinkTask"
	sourceTaskClass = "org.apache.kafka.connect.runtime.WorkerSourceTask"
)

// Failure is a record that has failed. As an error it is the end of a task.
type Failure struct {
	Stage Stage
	// Class is the full name of the Java class of the converter, the transform or the task.
	Class string
	Err   error
	// Consumed is the record as it was in its topic, for sinks; Polled as the connector has given it, for sources.
	Consumed *kgo.Record
	Polled   *data.Record
}

// Error names the record, the stage and the class.
func (f *Failure) Error() string {
	return fmt.Sprintf("%s: %s in %s: %v", f.record(), f.Stage, f.Class, f.Err)
}

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

func (f *Failure) record() string {
	switch {
	case f.Consumed != nil:
		return fmt.Sprintf("record %s-%d@%d", f.Consumed.Topic, f.Consumed.Partition, f.Consumed.Offset)
	case f.Polled == nil:
		return "record"
	case f.Polled.Partition == data.NoPartition:
		return fmt.Sprintf("record for %s", f.Polled.Topic)
	}
	return fmt.Sprintf("record for %s-%d", f.Polled.Topic, f.Polled.Partition)
}

// Exception is the Java class of the exception by which Kafka's worker would have failed.
func (f *Failure) Exception() string {
	const prefix = "org.apache.kafka.connect.errors."
	switch {
	case retriable(f.Err):
		return prefix + "RetriableException"
	case f.Stage == TaskPut || f.Stage == KafkaProduce:
		return prefix + "ConnectException"
	}
	return prefix + "DataException"
}

// Trace is for people who look for the cause: the exception, its words and, of a panic, the stack.
func (f *Failure) Trace() string {
	text := f.Exception() + ": " + f.Err.Error()
	var fault *remote.Fault
	var own *panicked
	switch {
	case errors.As(f.Err, &fault) && fault.Trace != "":
		text += "\n" + fault.Trace
	case errors.As(f.Err, &own):
		text += "\n" + string(own.stack)
	}
	return text
}

// Metrics count what has failed, under Kafka's names in task-error-metrics.
type Metrics struct {
	// Failures are total-record-failures, attempts; Errors total-record-errors, records that ended a task or were left out; Skipped
	// total-records-skipped; Retries total-retries; Logged total-errors-logged.
	Failures, Errors, Skipped, Retries, Logged atomic.Int64
	// DeadLetterRequests and DeadLetterFailures are deadletterqueue-produce-requests and -failures.
	DeadLetterRequests, DeadLetterFailures atomic.Int64
	// LastErrorMs is last-error-timestamp, milliseconds since 1970; 0 for never.
	LastErrorMs atomic.Int64
}

// Put and Produced are the failures of a record that its connector could not write, and that could not be produced.
func Put(consumed *kgo.Record, err error) *Failure {
	return &Failure{Stage: TaskPut, Class: sinkTaskClass, Err: err, Consumed: consumed}
}

// Produced is the failure of a source's record that could not be produced.
func Produced(polled *data.Record, err error) *Failure {
	return &Failure{Stage: KafkaProduce, Class: sourceTaskClass, Err: err, Polled: polled}
}

// Fail takes a failure that has happened elsewhere: it is counted and reported as all are. The error, f itself, is the end of the task; nil says that
// it is tolerated.
func (p *Pipeline) Fail(ctx context.Context, f *Failure) error {
	m := p.deps.Metrics
	m.Failures.Add(1)
	m.LastErrorMs.Store(p.deps.Now().UnixMilli())
	p.report(ctx, f)
	if p.policy.tolerate {
		return nil
	}
	m.Errors.Add(1)
	return f
}

// Tolerates says whether records that fail are left out.
func (p *Pipeline) Tolerates() bool { return p.policy.tolerate }

// Logs says whether failures are logged.
func (p *Pipeline) Logs() bool { return p.policy.log }

// fail is the end of a record in the pipeline.
func (p *Pipeline) fail(ctx context.Context, f *Failure) error {
	m := p.deps.Metrics
	m.LastErrorMs.Store(p.deps.Now().UnixMilli())
	m.Errors.Add(1)
	p.report(ctx, f)
	if !p.policy.tolerate {
		return f
	}
	m.Skipped.Add(1)
	return nil
}

func (p *Pipeline) report(ctx context.Context, f *Failure) {
	if p.deps.Report != nil {
		p.deps.Report(ctx, f)
	}
	if !p.policy.log {
		return
	}
	p.deps.Metrics.Logged.Add(1)
	fields := []zap.Field{zap.String("connector", p.config.Connector), zap.Int("task", p.config.Task), zap.String("stage", string(f.Stage)), zap.String("class", f.Class)}
	if p.policy.messages {
		fields = append(fields, f.message()...)
	}
	p.deps.Log.Error("a record has failed", append(fields, zap.Error(f.Err))...)
}

// maxShown bounds what is logged of a source's key or value.
const maxShown = 1 << 10

func (f *Failure) message() []zap.Field {
	if c := f.Consumed; c != nil {
		return []zap.Field{zap.String("topic", c.Topic), zap.Int32("partition", c.Partition), zap.Int64("offset", c.Offset), zap.Time("timestamp", c.Timestamp)}
	}
	if f.Polled == nil {
		return nil
	}
	return []zap.Field{zap.String("topic", f.Polled.Topic), zap.Int32("partition", f.Polled.Partition), zap.Int64("timestampMs", f.Polled.TimestampMs),
		zap.String("key", shown(f.Polled.Key)), zap.String("value", shown(f.Polled.Value))}
}

func shown(v data.Value) string {
	s, ok := v.V.(*data.Struct)
	text := ""
	if ok {
		text = fmt.Sprint(s.Values)
	} else {
		text = fmt.Sprint(v.V)
	}
	return text[:min(len(text), maxShown)]
}

// retriable says whether the same may succeed later. Errors say so by a method of that name; few do, as most are about the data.
func retriable(err error) bool {
	var r interface{ Retriable() bool }
	return errors.As(err, &r) && r.Retriable()
}

// minDelay is the first pause before an operation is tried again; each further one is twice as long.
const minDelay = 300 * time.Millisecond

// panicked is what an operation has panicked with: a record that is its fault is no reason for all tasks of the process to end.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// guarded makes an error of a panic.
func guarded[T any](operation func() (T, error)) (result T, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value, debug.Stack()}
		}
	}()
	return operation()
}

// attempt does an operation, again if it fails and errors.* say so. ok says that it has succeeded in the end; otherwise a copy of f, with its error,
// is reported, and err is the end of the task.
func attempt[T any](ctx context.Context, p *Pipeline, f *Failure, operation func() (T, error)) (result T, ok bool, err error) {
	if result, err = guarded(operation); err == nil {
		return result, true, nil
	}
	begun := p.deps.Now()
	for tries := 1; ; tries++ {
		p.deps.Metrics.Failures.Add(1)
		if !retriable(err) || !p.pause(ctx, tries, begun) {
			break
		}
		if ctx.Err() != nil {
			return result, false, fmt.Errorf("%s: waiting to try %s again: %w", f.record(), f.Stage, ctx.Err())
		}
		p.deps.Metrics.Retries.Add(1)
		if result, err = guarded(operation); err == nil {
			return result, true, nil
		}
	}
	failed := *f
	failed.Err = err
	return result, false, p.fail(ctx, &failed)
}

// pause waits before an operation is tried again, unless there is no time left for that.
func (p *Pipeline) pause(ctx context.Context, tries int, begun time.Time) bool {
	left := p.policy.retryTimeout - p.deps.Now().Sub(begun)
	forever := p.policy.retryTimeout < 0
	if left <= 0 && !forever {
		return false
	}
	delay := time.Duration(math.MaxInt64)
	if shift := tries - 1; shift < 32 {
		delay = minDelay << shift
	}
	if delay > p.policy.maxDelay {
		delay = 0
		if p.policy.maxDelay > 0 {
			delay = time.Duration(p.deps.Random(int64(p.policy.maxDelay)))
		}
	}
	if !forever {
		delay = min(delay, left)
	}
	p.deps.Wait(ctx, delay)
	return true
}
