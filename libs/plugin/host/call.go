package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// Outcomes of a call, as the metrics count them.
const (
	outcomeOK          = "ok"
	outcomeError       = "error" // the plugin's own
	outcomeTimeout     = "timeout"
	outcomeCrash       = "crash"
	outcomeTooLarge    = "too_large"
	outcomeUnavailable = "unavailable" // its program does not start
	outcomeUnknown     = "unknown"     // no program offers it
)

// exitGrace is how long the end of a process may take to be seen after its connection broke.
const exitGrace = 2 * time.Second

type offerKey struct {
	kind pluginpb.Kind
	name string
}

func (k offerKey) String() string { return kindName(k.kind) + " " + k.name }

func kindName(k pluginpb.Kind) string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "KIND_"))
}

// Assign asks the assignor of that name. The error names the assignor and what is wrong. That the answer is a good
// assignment is not checked, except that it gives no partition to a member beyond the request's.
func (h *Host) Assign(ctx context.Context, name string, r *plugin.Request) (plugin.Response, error) {
	var answer plugin.Response
	err := h.call(ctx, offerKey{pluginpb.Kind_KIND_ASSIGNOR, name}, func(ctx context.Context, p *process) error {
		response, err := pluginpb.NewAssignorClient(p.conn).Assign(ctx, encodeRequest(name, r), grpc.MaxCallRecvMsgSize(h.config.MaxAnswerBytes))
		if err == nil {
			answer, err = decodeResponse(response, len(r.Members), len(r.Topics))
		}
		return err
	})
	return answer, err
}

// WantsLag says whether the assignor of that name uses the group's lag.
func (h *Host) WantsLag(ctx context.Context, name string) (bool, error) {
	key := offerKey{pluginpb.Kind_KIND_ASSIGNOR, name}
	_, o, err := h.find(ctx, key)
	if err != nil {
		return false, fmt.Errorf("%s: %w", key, err)
	}
	return o.wantsLag, nil
}

// Partition asks the partitioner of that name for one partition for each record.
func (h *Host) Partition(ctx context.Context, name, topic string, partitions int32, records []plugin.Record) ([]int32, error) {
	request := &pluginpb.PartitionRequest{Partitioner: name, Topic: topic, Partitions: partitions}
	for _, r := range records {
		request.Records = append(request.Records, &pluginpb.PartitionRecord{Key: r.Key, Value: r.Value})
	}
	var answer []int32
	err := h.call(ctx, offerKey{pluginpb.Kind_KIND_PARTITIONER, name}, func(ctx context.Context, p *process) error {
		response, err := pluginpb.NewPartitionerClient(p.conn).Partition(ctx, request, grpc.MaxCallRecvMsgSize(h.config.MaxAnswerBytes))
		if err != nil {
			return err
		}
		answer = response.Partitions
		if len(answer) != len(records) {
			return fmt.Errorf("it answered %d partitions for %d records", len(answer), len(records))
		}
		for _, p := range answer {
			if p < 0 || p >= partitions {
				return fmt.Errorf("it answered partition %d of %d", p, partitions)
			}
		}
		return nil
	})
	return answer, err
}

// call makes one call with all that surrounds it: time limit, trace, metrics, what its failure means for the process, and another try where that may have died of
// another call.
func (h *Host) call(ctx context.Context, key offerKey, invoke func(context.Context, *process) error) error {
	ctx, span := h.tracer.Start(ctx, "plugin "+key.String(), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("cauce.plugin.kind", kindName(key.kind)), attribute.String("cauce.plugin.name", key.name)))
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, h.config.CallTimeout)
	defer cancel()
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for name, value := range carrier {
		ctx = metadata.AppendToOutgoingContext(ctx, name, value)
	}
	began := time.Now()
	outcome, err := h.attempt(ctx, key, began, invoke)
	took := time.Since(began)
	if outcome == outcomeUnknown {
		h.metrics.calls.WithLabelValues(kindName(key.kind), "", outcome).Inc() // whatever name clients think of
	} else {
		h.metrics.calls.WithLabelValues(kindName(key.kind), key.name, outcome).Inc()
		h.metrics.seconds.WithLabelValues(kindName(key.kind), key.name).Observe(took.Seconds())
		h.latency(key).add(took)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", key, err)
		span.RecordError(err)
		span.SetStatus(otelcodes.Error, outcome)
		h.log.Warn("plugin call failed", zap.Stringer("plugin", key), zap.String("outcome", outcome), zap.Error(err), traceField(ctx))
	}
	return err
}

func (h *Host) attempt(ctx context.Context, key offerKey, began time.Time, invoke func(context.Context, *process) error) (outcome string, err error) {
	f, _, err := h.find(ctx, key)
	if err != nil {
		return outcomeUnknown, err
	}
	outcome, crowded, err := h.ask(ctx, f, key, began, invoke)
	if !crowded {
		return outcome, err
	}
	// It may have died of another call. Those that were under way are made once more, none beside another of them, so that the one that it died of takes
	// no other along again.
	select {
	case f.again <- struct{}{}:
	case <-ctx.Done():
		return outcome, err
	}
	defer func() { <-f.again }()
	f.log.Info("a call is made again, as the process may have died of another", zap.Stringer("plugin", key))
	outcome, _, err = h.ask(ctx, f, key, began, invoke)
	return outcome, err
}

// ask makes the call once. crowded says that the process has died while others were under way.
func (h *Host) ask(ctx context.Context, f *file, key offerKey, began time.Time, invoke func(context.Context, *process) error) (outcome string, crowded bool, err error) {
	p, err := f.acquire(ctx)
	if err != nil {
		return outcomeUnavailable, false, err
	}
	defer f.release(p)
	if !p.has(key.kind, key.name) {
		return outcomeUnavailable, false, fmt.Errorf("%s has changed and no longer offers it", f.base())
	}
	asked := time.Now()
	if err = invoke(ctx, p); err == nil {
		f.succeeded()
		return outcomeOK, false, nil
	}
	// The plugin is told the deadline, and its answer that it has passed may come before ctx ends here.
	timedOut := errors.Is(ctx.Err(), context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
	if waited := asked.Sub(began); timedOut && waited > time.Since(asked) {
		// It had too little of the time to be taken for one that hangs: were it replaced, the next call would have no more.
		return outcomeTimeout, false, fmt.Errorf("no answer in time, of which its start took %v: %w", waited.Round(time.Millisecond), context.DeadlineExceeded)
	}
	outcome, err = h.judge(ctx, f, p, err)
	return outcome, outcome == outcomeCrash && f.wasCrowded(p), err
}

// judge says what a failed call means, and takes a process that hangs from use.
func (h *Host) judge(ctx context.Context, f *file, p *process, err error) (outcome string, _ error) {
	s, ok := status.FromError(err)
	switch {
	case h.ctx.Err() != nil:
		return outcomeUnavailable, errStopped
	case !ok:
		return outcomeError, err // ours, about the answer
	case errors.Is(ctx.Err(), context.Canceled):
		return outcomeError, ctx.Err()
	case s.Code() == codes.DeadlineExceeded:
		f.replace(p)
		return outcomeTimeout, fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	case s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), "received message larger than max"):
		return outcomeTooLarge, fmt.Errorf("its answer is larger than %d bytes (plugin.answer.max.bytes)", h.config.MaxAnswerBytes)
	case s.Code() == codes.Canceled && p.runner.ended():
		return h.crashed(f, p) // its end was seen, and the connection closed, before the call saw it break
	case s.Code() == codes.Unavailable:
		select {
		case <-p.runner.exited:
			return h.crashed(f, p)
		case <-ctx.Done():
		case <-time.After(exitGrace):
		}
		f.replace(p)
		return outcomeCrash, fmt.Errorf("%s closed its connection: %s", f.base(), s.Message())
	}
	return outcomeError, errors.New(s.Message())
}

// crashed notes the end of a process, before the next call comes.
func (h *Host) crashed(f *file, p *process) (outcome string, _ error) {
	f.mu.Lock()
	f.noteEnd(p)
	f.mu.Unlock()
	return outcomeCrash, fmt.Errorf("%s crashed: %s", f.base(), p.epitaph())
}

func (h *Host) latency(key offerKey) *latencies {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.latencies[key]
	if l == nil {
		l = &latencies{}
		h.latencies[key] = l
	}
	return l
}

// traceField is the field that ties a log line to its trace.
func traceField(ctx context.Context) zap.Field {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return zap.Skip()
	}
	return zap.String("trace_id", span.TraceID().String())
}
