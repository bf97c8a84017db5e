package tracing

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Sampling says which traces are kept. What began elsewhere is sampled if it is so there.
type Sampling struct {
	// Rate is the share of the traces beginning here that are sampled, 0 to 1.
	Rate float64
	// SlowAfter is how long a request may take before its span is kept whatever the rate; negative: any time.
	SlowAfter time.Duration
}

// chooses decides on a trace that begins here, by its id as OpenTelemetry's samplers do, so that all agree who have the same rate.
func (s Sampling) chooses(id trace.TraceID) bool {
	const whole = 1 << 63
	return s.Rate >= 1 || float64(binary.BigEndian.Uint64(id[8:])>>1) < s.Rate*whole
}

// RateOf is the rate that the standard variables OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG ask for, 1 without them. The
// samplers that are not based on the parent's decision count as those that are.
func RateOf(getenv func(string) string) (float64, error) {
	switch name := getenv("OTEL_TRACES_SAMPLER"); name {
	case "", "always_on", "parentbased_always_on":
		return 1, nil
	case "always_off", "parentbased_always_off":
		return 0, nil
	case "traceidratio", "parentbased_traceidratio":
		rate, err := strconv.ParseFloat(cmp.Or(getenv("OTEL_TRACES_SAMPLER_ARG"), "1"), 64)
		if err != nil || !(rate >= 0 && rate <= 1) {
			return 0, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %q is no number between 0 and 1", getenv("OTEL_TRACES_SAMPLER_ARG"))
		}
		return rate, nil
	default:
		return 0, fmt.Errorf("OTEL_TRACES_SAMPLER: %q is not known", name)
	}
}

// sampler is the provider's: it follows the parent, and takes whatever is recorded after its end.
type sampler struct{ Sampling }

// ShouldSample is sdktrace.Sampler's.
func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	result := sdktrace.SamplingResult{Decision: sdktrace.Drop, Tracestate: parent.TraceState()}
	_, recorded := ownOf(p.ParentContext)
	if recorded || parent.IsSampled() || !parent.IsValid() && s.chooses(p.TraceID) {
		result.Decision = sdktrace.RecordAndSample
	}
	return result
}

// Description is sdktrace.Sampler's.
func (s sampler) Description() string {
	return fmt.Sprintf("Cauce{rate:%g,slow:%v}", s.Rate, s.SlowAfter)
}

// maxExtra bounds the requests a second whose spans are kept without being sampled: when all fail, a few tell as much as all.
const maxExtra = 100

// budget counts them. Two that come as a second begins may both begin the count, which then is a little too low.
type budget struct{ second, taken atomic.Int64 }

func (b *budget) take(second int64) bool {
	if b.second.Swap(second) != second {
		b.taken.Store(0)
	}
	return b.taken.Add(1) <= maxExtra
}
