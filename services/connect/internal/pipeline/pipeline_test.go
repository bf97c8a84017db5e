package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/converter"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

const (
	jsonClass   = "org.apache.kafka.connect.json.JsonConverter"
	stringClass = "org.apache.kafka.connect.storage.StringConverter"
)

// worker has JSON without schemas for values.
func worker(t testing.TB) workerconfig.Config {
	t.Helper()
	c, err := workerconfig.Parse(map[string]string{
		"group.id": "g", "config.storage.topic": "c", "offset.storage.topic": "o", "status.storage.topic": "s",
		"key.converter": stringClass, "value.converter": jsonClass, "value.converter.schemas.enable": "false",
	}, "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fixture is a pipeline whose clock moves by what it waits.
type fixture struct {
	*Pipeline
	metrics  Metrics
	now      time.Time
	waits    []time.Duration
	onWait   func()
	failures []Failure
	logged   *observer.ObservedLogs
}

func newFixture(t testing.TB, properties ...string) *fixture {
	t.Helper()
	f := &fixture{now: time.UnixMilli(1_000_000)}
	core, logged := observer.New(zapcore.DebugLevel)
	f.logged = logged
	made, err := New(Config{Connector: "shop", Task: 2, Properties: pairs(properties), Worker: worker(t)}, Deps{
		Log: zap.New(core), Metrics: &f.metrics,
		Report: func(_ context.Context, failure *Failure) { f.failures = append(f.failures, *failure) },
		Now:    func() time.Time { return f.now },
		Wait: func(_ context.Context, d time.Duration) {
			f.waits, f.now = append(f.waits, d), f.now.Add(d)
			if f.onWait != nil {
				f.onWait()
			}
		},
		Random: func(n int64) int64 { return n - 1 },
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Pipeline = made
	return f
}

func pairs(list []string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	return m
}

// counts are the metrics in one line.
func (f *fixture) counts() string {
	m := &f.metrics
	return fmt.Sprintf("failures %d errors %d skipped %d retries %d logged %d last %d",
		m.Failures.Load(), m.Errors.Load(), m.Skipped.Load(), m.Retries.Load(), m.Logged.Load(), m.LastErrorMs.Load())
}

// flaky is a converter that fails a number of times.
type flaky struct {
	converter.Converter
	failures int
	err      error
}

type passing struct{ error }

func (passing) Retriable() bool { return true }

func (c *flaky) Decode(topic string, b []byte) (data.Value, error) {
	if c.failures != 0 {
		c.failures--
		return data.Value{}, c.err
	}
	return c.Converter.Decode(topic, b)
}

func consumed() *kgo.Record {
	return &kgo.Record{Topic: "orders", Partition: 3, Offset: 42, Timestamp: time.UnixMilli(1234), Key: []byte("k"), Value: []byte(`{"a":1,"b":"x"}`),
		Headers: []kgo.RecordHeader{{Key: "n", Value: []byte("7")}, {Key: "none"}}}
}

func TestFromTopic(t *testing.T) {
	f := newFixture(t, "transforms", "route,pick", "transforms.route.type", "RegexRouter", "transforms.route.regex", "(.*)", "transforms.route.replacement", "copy-$1",
		"transforms.pick.type", "ExtractField$Value", "transforms.pick.field", "b")
	r, keep, err := f.FromTopic(t.Context(), consumed())
	if err != nil || !keep {
		t.Fatal(keep, err)
	}
	if r.Original != (plugin.TopicPartition{Topic: "orders", Partition: 3}) || r.Topic != "copy-orders" || r.Partition != 3 || r.Offset != 42 || r.TimestampMs != 1234 {
		t.Errorf("placed at %+v", r)
	}
	if r.Key.V != "k" || r.Value.V != "x" || len(r.Headers) != 2 || r.Headers[0].Name != "n" || r.Headers[0].Value.V != int8(7) || r.Headers[1].Value.V != nil {
		t.Errorf("has key %v, value %v, headers %v", r.Key.V, r.Value.V, r.Headers)
	}
	if f.counts() != "failures 0 errors 0 skipped 0 retries 0 logged 0 last 0" {
		t.Error(f.counts())
	}
	tombstone := consumed()
	tombstone.Value = nil
	if _, _, err := f.FromTopic(t.Context(), tombstone); err != nil {
		t.Errorf("a tombstone: %v", err)
	}
}

func TestDropped(t *testing.T) {
	f := newFixture(t, "transforms", "none", "transforms.none.type", "Filter")
	if _, keep, err := f.FromTopic(t.Context(), consumed()); keep || err != nil {
		t.Errorf("a sink's record is kept: %t, %v", keep, err)
	}
	r := data.NewRecord("orders", data.Value{V: "k"}, data.Value{V: "v"})
	if to, err := f.ToTopic(t.Context(), &r); to != nil || err != nil {
		t.Errorf("a source's record is kept: %v, %v", to, err)
	}
	if f.counts() != "failures 0 errors 0 skipped 0 retries 0 logged 0 last 0" {
		t.Errorf("what is dropped on purpose counts as failed: %s", f.counts())
	}
}

func TestToTopic(t *testing.T) {
	f := newFixture(t, "transforms", "h", "transforms.h.type", "InsertHeader", "transforms.h.header", "from", "transforms.h.value.literal", "shop")
	polled := data.NewRecord("orders", data.Value{V: "k"}, data.Value{V: map[any]any{"a": int64(1)}})
	r, err := f.ToTopic(t.Context(), &polled)
	if err != nil {
		t.Fatal(err)
	}
	if r.Topic != "orders" || r.Partition != data.NoPartition || !r.Timestamp.IsZero() || string(r.Key) != "k" || string(r.Value) != `{"a":1}` ||
		len(r.Headers) != 1 || r.Headers[0].Key != "from" || string(r.Headers[0].Value) != "shop" {
		t.Errorf("made %+v", r)
	}
	polled.Partition, polled.TimestampMs, polled.Value = 4, 77, data.Value{}
	if r, err = f.ToTopic(t.Context(), &polled); err != nil {
		t.Fatal(err)
	}
	if r.Partition != 4 || r.Timestamp.UnixMilli() != 77 || r.Value != nil {
		t.Errorf("made %+v", r)
	}
	polled.TimestampMs = -5
	if _, err := f.ToTopic(t.Context(), &polled); err == nil || !strings.Contains(err.Error(), "-5") {
		t.Errorf("a timestamp of -5: %v", err)
	}
}

// Each stage fails once under both tolerances, in both directions.
func TestStages(t *testing.T) {
	pick := []string{"transforms", "pick", "transforms.pick.type", "ExtractField$Value", "transforms.pick.field", "none"}
	ints := "org.apache.kafka.connect.converters.IntegerConverter"
	polled := data.Record{Topic: "orders", Partition: 3, Offset: data.NoOffset, TimestampMs: 5, Key: data.Value{V: "k"}, Value: data.Value{V: "v"}, Headers: []data.Header{{Name: "n", Value: data.Value{V: "v"}}}}
	for _, test := range []struct {
		stage      Stage
		class      string
		properties []string
		source     bool
	}{
		{KeyConverter, ints, []string{"key.converter", ints}, false},
		{ValueConverter, ints, []string{"value.converter", "Integer"}, false},
		{HeaderConverter, ints, []string{"header.converter", ints}, false},
		{Transformation, "org.apache.kafka.connect.transforms.ExtractField$Value", pick, false},
		{KeyConverter, ints, []string{"key.converter", ints}, true},
		{ValueConverter, ints, []string{"value.converter", ints}, true},
		{HeaderConverter, ints, []string{"header.converter", ints}, true},
		{Transformation, "org.apache.kafka.connect.transforms.ExtractField$Value", pick, true},
	} {
		for _, tolerance := range []string{"none", "ALL"} {
			t.Run(fmt.Sprintf("%s/source=%t/%s", test.stage, test.source, tolerance), func(t *testing.T) {
				f := newFixture(t, append(slices.Clone(test.properties), "errors.tolerance", tolerance, "errors.retry.timeout", "-1")...)
				c, p := consumed(), polled
				if test.stage == Transformation {
					c.Value = []byte(`"no struct"`)
				}
				var err error
				var made any
				if test.source {
					var r *kgo.Record
					if r, err = f.ToTopic(t.Context(), &p); r != nil {
						made = r
					}
				} else {
					var keep bool
					if _, keep, err = f.FromTopic(t.Context(), c); keep {
						made = keep
					}
				}
				if made != nil || len(f.failures) != 1 || f.failures[0].Stage != test.stage || f.failures[0].Class != test.class {
					t.Fatalf("made %v, reported %v", made, f.failures)
				}
				if test.source && f.failures[0].Polled != &p || !test.source && f.failures[0].Consumed != c {
					t.Error("what is reported is not the original record")
				}
				if len(f.waits) != 0 {
					t.Error("what is about the data was tried again")
				}
				if tolerance == "ALL" {
					if err != nil || f.counts() != "failures 1 errors 1 skipped 1 retries 0 logged 0 last 1000000" {
						t.Error(err, f.counts())
					}
					return
				}
				var failure *Failure
				if !errors.As(err, &failure) || f.counts() != "failures 1 errors 1 skipped 0 retries 0 logged 0 last 1000000" {
					t.Fatal(err, f.counts())
				}
				for _, want := range []string{"orders-3", string(test.stage), test.class} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("the error does not name %s: %v", want, err)
					}
				}
				if !test.source && !strings.Contains(err.Error(), "@42") {
					t.Errorf("the error does not name the offset: %v", err)
				}
			})
		}
	}
}

func TestRetries(t *testing.T) {
	ms := func(list ...int) []time.Duration {
		var all []time.Duration
		for _, n := range list {
			all = append(all, time.Duration(n)*time.Millisecond)
		}
		return all
	}
	for _, test := range []struct {
		name           string
		timeout, delay string
		failures       int
		waits          []time.Duration
		want           bool
		counts         string
	}{
		{"no time", "0", "60000", 1, nil, false, "failures 1 errors 1 skipped 0 retries 0 logged 0 last 1000000"},
		{"doubling", "-1", "60000", 3, ms(300, 600, 1200), true, "failures 3 errors 0 skipped 0 retries 3 logged 0 last 0"},
		{"random above the cap", "-1", "700", 4, ms(300, 600, 700, 700), true, "failures 4 errors 0 skipped 0 retries 4 logged 0 last 0"},
		{"no pause", "-1", "0", 2, ms(0, 0), true, "failures 2 errors 0 skipped 0 retries 2 logged 0 last 0"},
		{"until the deadline", "1000", "60000", -1, ms(300, 600, 100), false, "failures 4 errors 1 skipped 0 retries 3 logged 0 last 1001000"},
		{"many times", "-1", "10", 100, nil, true, "failures 100 errors 0 skipped 0 retries 100 logged 0 last 0"},
		{"as long as can be", "9223372036854775807", "9223372036854775807", 33, nil, true, "failures 33 errors 0 skipped 0 retries 33 logged 0 last 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, "errors.retry.timeout", test.timeout, "errors.retry.delay.max.ms", test.delay)
			f.value.Converter = &flaky{Converter: f.value.Converter, failures: test.failures, err: passing{errors.New("registry is away")}}
			_, keep, err := f.FromTopic(t.Context(), consumed())
			if keep != test.want || (err == nil) != test.want || f.counts() != test.counts {
				t.Errorf("kept %t, %v, %s", keep, err, f.counts())
			}
			for i := range f.waits { // the random pauses are one nanosecond below the cap
				f.waits[i] = f.waits[i].Round(time.Microsecond)
			}
			if len(f.waits) > 0 && slices.Min(f.waits) < 0 {
				t.Errorf("waited %v", f.waits)
			}
			if test.waits != nil && !slices.Equal(f.waits, test.waits) {
				t.Errorf("waited %v", f.waits)
			}
		})
	}
}

// A task that stops while it waits neither leaves the record out nor reports it: it was not the record's fault.
func TestStopWhileRetrying(t *testing.T) {
	f := newFixture(t, "errors.retry.timeout", "-1", "errors.tolerance", "all")
	f.value.Converter = &flaky{Converter: f.value.Converter, failures: -1, err: passing{errors.New("registry is away")}}
	ctx, cancel := context.WithCancel(t.Context())
	f.onWait = cancel
	if _, keep, err := f.FromTopic(ctx, consumed()); keep || !errors.Is(err, context.Canceled) {
		t.Errorf("kept %t, %v", keep, err)
	}
	if len(f.failures) != 0 || len(f.waits) != 1 {
		t.Errorf("reported %v, waited %v", f.failures, f.waits)
	}
}

func TestConverters(t *testing.T) {
	for _, test := range []struct {
		name       string
		properties []string
		bytes      string
		want       any
	}{
		{"the worker's, with its keys", nil, `5`, int64(5)},
		{"the worker's, whatever keys without a class say", []string{"value.converter.schemas.enable", "true"}, `5`, int64(5)},
		{"the connector's, with its keys", []string{"value.converter", jsonClass, "value.converter.schemas.enable", "true"}, `{"schema":{"type":"string"},"payload":"x"}`, "x"},
		{"the connector's of the same class, without the worker's keys", []string{"value.converter", jsonClass}, `{"schema":{"type":"string"},"payload":"x"}`, "x"},
		{"the connector's of another class", []string{"value.converter", " String "}, `5`, "5"},
	} {
		f := newFixture(t, test.properties...)
		r := consumed()
		r.Value = []byte(test.bytes)
		if got, _, err := f.FromTopic(t.Context(), r); err != nil || got.Value.V != test.want {
			t.Errorf("%s: %v, %v", test.name, got.Value.V, err)
		}
	}
}

func TestFaultsOfAConfiguration(t *testing.T) {
	_, err := New(Config{Connector: "shop", Worker: worker(t), Properties: pairs([]string{"errors.tolerance", "some", "errors.retry.timeout", "-2", "key.converter", "Yaml",
		"value.converter", "org.apache.kafka.connect.storage.SimpleHeaderConverter", "transforms", "x", "transforms.x.type", "Nothing"})}, Deps{})
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"shop", "errors.tolerance", "errors.retry.timeout", "key.converter", "value.converter", "transforms.x"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("does not name %s: %v", want, err)
		}
	}
}

func TestLog(t *testing.T) {
	bad := consumed()
	bad.Value = []byte("{")
	for _, test := range []struct {
		name       string
		properties []string
		fields     string
	}{
		{"off", []string{"errors.log.include.messages", "true"}, ""},
		{"on", []string{"errors.log.enable", "true"}, "class connector error stage task"},
		{"with messages", []string{"errors.log.enable", "true", "errors.log.include.messages", "true"}, "class connector error offset partition stage task timestamp topic"},
	} {
		f := newFixture(t, append(test.properties, "errors.tolerance", "all")...)
		if _, _, err := f.FromTopic(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
		var fields []string
		for _, entry := range f.logged.All() {
			for name := range entry.ContextMap() {
				fields = append(fields, name)
			}
		}
		slices.Sort(fields)
		if strings.Join(fields, " ") != test.fields || f.metrics.Logged.Load() != int64(f.logged.Len()) {
			t.Errorf("%s: %d lines with %v", test.name, f.logged.Len(), fields)
		}
	}
}

type panicking struct{ converter.Converter }

func (panicking) Decode(string, []byte) (data.Value, error) { panic("out of range") }

// A panic is the record's failure, not the worker's.
func TestPanic(t *testing.T) {
	f := newFixture(t, "errors.tolerance", "all", "errors.retry.timeout", "-1")
	f.value.Converter = panicking{}
	if _, keep, err := f.FromTopic(t.Context(), consumed()); keep || err != nil || len(f.failures) != 1 || len(f.waits) != 0 {
		t.Fatalf("kept %t, %v, reported %v", keep, err, f.failures)
	}
	if failure := f.failures[0]; failure.Stage != ValueConverter || !strings.Contains(failure.Error(), "panic: out of range") || !strings.Contains(failure.Trace(), "panicking") {
		t.Errorf("reported %v", failure.Trace())
	}
}

func TestFail(t *testing.T) {
	polled := data.NewRecord("orders", data.Value{V: strings.Repeat("k", 5000)}, data.Value{})
	for _, failure := range []*Failure{Put(consumed(), errors.New("too long")), Produced(&polled, errors.New("too large"))} {
		f := newFixture(t, "errors.log.enable", "true", "errors.log.include.messages", "true")
		if err := f.Fail(t.Context(), failure); err != error(failure) || len(f.failures) != 1 || f.counts() != "failures 1 errors 1 skipped 0 retries 0 logged 1 last 1000000" {
			t.Errorf("%v: %v, %s", failure, err, f.counts())
		}
		if key, ok := f.logged.All()[0].ContextMap()["key"].(string); ok && len(key) > maxShown {
			t.Errorf("%d bytes of the key are logged", len(key))
		}
		f = newFixture(t, "errors.tolerance", "all")
		if err := f.Fail(t.Context(), failure); err != nil || len(f.failures) != 1 || f.counts() != "failures 1 errors 0 skipped 0 retries 0 logged 0 last 1000000" {
			t.Errorf("%v: %v, %s", failure, err, f.counts())
		}
	}
}

func TestSpans(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	f := newFixture(t, "transforms", "route", "transforms.route.type", "RegexRouter", "transforms.route.regex", "x", "transforms.route.replacement", "y")
	f.deps.Tracer = provider.Tracer("test")
	if _, _, err := f.FromTopic(t.Context(), consumed()); err != nil || len(spans.GetSpans()) != 0 {
		t.Errorf("spans of a record that is not sampled: %v, %v", spans.GetSpans(), err)
	}
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(t.Context(), parent)
	bad := consumed()
	bad.Value = []byte("{")
	_, _, _ = f.FromTopic(ctx, consumed())
	_, _, _ = f.FromTopic(ctx, bad)
	var names []string
	for _, s := range spans.GetSpans() {
		names = append(names, s.Name+" "+s.Status.Code.String())
		if s.Parent.SpanID() != parent.SpanID() {
			t.Error("a span is not part of the record's trace")
		}
	}
	if want := "connect.convert Unset, connect.transform Unset, connect.convert Error"; strings.Join(names, ", ") != want {
		t.Errorf("spans %v", names)
	}
}

func BenchmarkFromTopic(b *testing.B) {
	for name, properties := range map[string][]string{
		"json": nil, "string": {"value.converter", "String", "key.converter", "String"}, "bytes": {"value.converter", "ByteArray", "key.converter", "ByteArray"},
		"json+2smt": {"transforms", "a,b", "transforms.a.type", "InsertField$Value", "transforms.a.offset.field", "o", "transforms.b.type", "RegexRouter", "transforms.b.regex", "x", "transforms.b.replacement", "y"},
	} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, properties...)
			r := consumed()
			r.Headers = nil
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := f.FromTopic(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func BenchmarkToTopic(b *testing.B) {
	f := newFixture(b)
	r := data.NewRecord("orders", data.Value{V: "k"}, data.Value{V: map[any]any{"a": int64(1), "b": "x"}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.ToTopic(b.Context(), &r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
