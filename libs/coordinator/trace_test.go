package coordinator

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
)

func TestLoadsAndAppendsAreTraced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		log := newMemLog()
		r, err := New(Config{Name: "group"}, Deps{Log: log, Logger: zap.NewNop(),
			Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")}, newKV)
		if err != nil {
			t.Fatal(err)
		}
		r.Own(shardID, log.move(shardID))
		synctest.Wait()
		log.setPlan(failing(kerr.NotEnoughReplicas))
		r.Do(shardID, put("a", "1"), func(any, error) {})
		synctest.Wait()
		log.setPlan(nil)
		time.Sleep(time.Second)
		r.Close()
		var got []string
		for _, s := range spans.Ended() {
			name := s.Name()
			if s.Status().Code == codes.Error {
				name += " failed"
			}
			got = append(got, name)
		}
		want := []string{"group shard append", "group shard load", "group shard append failed", "group shard append"}
		if !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
	})
}

func TestATracerThatLeadsNowhereIsNotUsed(t *testing.T) {
	r, err := New(Config{Name: "group"}, Deps{Log: newMemLog(), Logger: zap.NewNop(), Tracer: noop.NewTracerProvider().Tracer("test")}, newKV)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.tracer != nil {
		t.Error("spans are made that nobody sees")
	}
}
