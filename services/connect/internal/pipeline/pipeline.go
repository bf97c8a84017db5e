// Package pipeline is what a task does to each record between its connector and a topic, converters and transforms, and what becomes of the records
// that fail on the way: tried again, logged, written elsewhere, left out, or the end of the task, as errors.* of the connector say.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/converter"
	"github.com/cauce-stream/cauce/services/connect/internal/transform"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// Config says which task it is, and how its connector and its worker are configured.
type Config struct {
	// Connector is what users call the connector, Task the task's number, from 0.
	Connector string
	Task      int
	// Properties are the connector's configuration.
	Properties map[string]string
	// Worker has the converters that the connector does not name.
	Worker workerconfig.Config
}

// Deps are what a pipeline does not do itself.
type Deps struct {
	// Log takes the failures, if errors.log.enable says so.
	Log *zap.Logger
	// Tracer makes spans of what is done for records that are sampled; nil for none.
	Tracer trace.Tracer
	// Metrics count the failures.
	Metrics *Metrics
	// Report is told of each failure, before the task ends of it if it does; nil for nobody. It is called by whoever calls Fail, too.
	Report func(context.Context, *Failure)
	// Now, Wait and Random are the clock, a pause that ends early with its context, and a number from 0 up to below n; nil for the system's.
	Now    func() time.Time
	Wait   func(context.Context, time.Duration)
	Random func(n int64) int64
}

// Pipeline is one task's. FromTopic and ToTopic are for one goroutine at a time, Fail is for any.
type Pipeline struct {
	config Config
	deps   Deps
	policy policy

	key, value, header stage
	transforms         []*transform.Stage
	// untraced is the last context that was in no trace, as that of most records is: to find out costs more than a conversion.
	untraced context.Context
}

// stage is a converter with the name of its class.
type stage struct {
	converter.Converter
	class string
}

// New makes the converters and transforms of a task. The error has every fault of the configuration.
func New(c Config, d Deps) (*Pipeline, error) {
	p := &Pipeline{config: c, deps: d}
	if p.deps.Now == nil {
		p.deps.Now = time.Now
	}
	if p.deps.Wait == nil {
		p.deps.Wait = wait
	}
	if p.deps.Random == nil {
		p.deps.Random = rand.Int64N
	}
	var faults [5]error
	p.policy, faults[0] = newPolicy(c.Properties)
	p.key, faults[1] = newConverter(c, converter.Key, workerconfig.KeyConverter)
	p.value, faults[2] = newConverter(c, converter.Value, workerconfig.ValueConverter)
	p.header, faults[3] = newConverter(c, converter.Header, workerconfig.HeaderConverter)
	p.transforms, faults[4] = transform.Stages(c.Properties)
	if err := errors.Join(faults[:]...); err != nil {
		return nil, fmt.Errorf("configuration of connector %q: %w", c.Connector, err)
	}
	return p, nil
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// FromTopic returns what a sink is given of a record that was consumed, or that it is given nothing: a transform has dropped the record, or it has
// failed and that is tolerated. What was consumed is only read. The error, a *Failure unless ctx has ended, is the end of the task.
func (p *Pipeline) FromTopic(ctx context.Context, consumed *kgo.Record) (r plugin.SinkRecord, keep bool, err error) {
	f := Failure{Consumed: consumed}
	keep, err = p.decode(ctx, &f, &r.Record)
	if keep && err == nil && len(p.transforms) > 0 {
		r.Record, keep, err = p.transform(ctx, &f, r.Record)
	}
	if !keep || err != nil {
		return plugin.SinkRecord{}, false, err
	}
	r.Offset = consumed.Offset
	r.Original = plugin.TopicPartition{Topic: consumed.Topic, Partition: consumed.Partition}
	return r, true, nil
}

// ToTopic returns the record to be produced of what a source has given, or nil if there is nothing to produce: a transform has dropped the record, or
// it has failed and that is tolerated. Its partition is data.NoPartition where a partitioner is to choose, its timestamp zero where none is set.
// The error, a *Failure unless ctx has ended, is the end of the task.
func (p *Pipeline) ToTopic(ctx context.Context, polled *data.Record) (*kgo.Record, error) {
	f := Failure{Polled: polled}
	record, keep, err := *polled, true, error(nil)
	if len(p.transforms) > 0 {
		record, keep, err = p.transform(ctx, &f, record)
	}
	if !keep || err != nil {
		return nil, err
	}
	if record.TimestampMs < data.NoTimestamp {
		return nil, p.fail(ctx, &Failure{Polled: polled, Stage: Transformation, Class: sourceTaskClass, Err: fmt.Errorf("its timestamp is %d", record.TimestampMs)})
	}
	return p.encode(ctx, &f, &record)
}

func (p *Pipeline) transform(ctx context.Context, f *Failure, r data.Record) (data.Record, bool, error) {
	end := p.span(ctx, "connect.transform")
	dropped := false
	for _, s := range p.transforms {
		f.Stage, f.Class = Transformation, s.Class
		changed, ok, err := attempt(ctx, p, f, func() (changed data.Record, err error) {
			changed, dropped, err = s.Apply(r)
			return changed, err
		})
		if !ok || dropped {
			end(err)
			return r, false, err
		}
		r = changed
	}
	end(nil)
	return r, true, nil
}

func (p *Pipeline) decode(ctx context.Context, f *Failure, r *data.Record) (ok bool, err error) {
	end := p.span(ctx, "connect.convert")
	defer func() { end(err) }()
	c := f.Consumed
	r.Topic, r.Partition, r.Offset, r.TimestampMs = c.Topic, c.Partition, c.Offset, data.NoTimestamp
	if !c.Timestamp.IsZero() {
		r.TimestampMs = c.Timestamp.UnixMilli()
	}
	f.Stage, f.Class = KeyConverter, p.key.class
	if r.Key, ok, err = attempt(ctx, p, f, func() (data.Value, error) { return p.key.Decode(c.Topic, c.Key) }); !ok {
		return false, err
	}
	f.Stage, f.Class = ValueConverter, p.value.class
	if r.Value, ok, err = attempt(ctx, p, f, func() (data.Value, error) { return p.value.Decode(c.Topic, c.Value) }); !ok {
		return false, err
	}
	if len(c.Headers) == 0 {
		return true, nil
	}
	f.Stage, f.Class = HeaderConverter, p.header.class
	r.Headers, ok, err = attempt(ctx, p, f, func() ([]data.Header, error) {
		headers := make([]data.Header, len(c.Headers))
		for i, h := range c.Headers {
			v, err := p.header.Decode(c.Topic, h.Value)
			if err != nil {
				return nil, fmt.Errorf("header %q: %w", h.Key, err)
			}
			headers[i] = data.Header{Name: h.Key, Value: v}
		}
		return headers, nil
	})
	return ok, err
}

func (p *Pipeline) encode(ctx context.Context, f *Failure, r *data.Record) (to *kgo.Record, err error) {
	end := p.span(ctx, "connect.convert")
	defer func() { end(err) }()
	to = &kgo.Record{Topic: r.Topic, Partition: r.Partition}
	if r.TimestampMs != data.NoTimestamp {
		to.Timestamp = time.UnixMilli(r.TimestampMs)
	}
	var ok bool
	if len(r.Headers) > 0 {
		f.Stage, f.Class = HeaderConverter, p.header.class
		if to.Headers, ok, err = attempt(ctx, p, f, func() ([]kgo.RecordHeader, error) { return p.encodeHeaders(r) }); !ok {
			return nil, err
		}
	}
	f.Stage, f.Class = KeyConverter, p.key.class
	if to.Key, ok, err = attempt(ctx, p, f, func() ([]byte, error) { return p.key.Encode(r.Topic, r.Key) }); !ok {
		return nil, err
	}
	f.Stage, f.Class = ValueConverter, p.value.class
	if to.Value, ok, err = attempt(ctx, p, f, func() ([]byte, error) { return p.value.Encode(r.Topic, r.Value) }); !ok {
		return nil, err
	}
	return to, nil
}

func (p *Pipeline) encodeHeaders(r *data.Record) ([]kgo.RecordHeader, error) {
	headers := make([]kgo.RecordHeader, len(r.Headers))
	for i, h := range r.Headers {
		b, err := p.header.Encode(r.Topic, h.Value)
		if err != nil {
			return nil, fmt.Errorf("header %q: %w", h.Name, err)
		}
		headers[i] = kgo.RecordHeader{Key: h.Name, Value: b}
	}
	return headers, nil
}

func endNothing(error) {}

// span begins a span if ctx is in a trace that is sampled; what it returns ends it.
func (p *Pipeline) span(ctx context.Context, name string) (end func(error)) {
	if p.deps.Tracer == nil || ctx == p.untraced {
		return endNothing
	}
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		p.untraced = ctx
		return endNothing
	}
	_, span := p.deps.Tracer.Start(ctx, name)
	return func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
