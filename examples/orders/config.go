package orders

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kotel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	partitions = 6
	// maxBatch is how many records a service takes at a time.
	maxBatch = 100
	// endsWithin is how long a service that is told to stop takes for what it has begun.
	endsWithin = 20 * time.Second
	// createsWithin is how long the cluster may take to come up.
	createsWithin = 2 * time.Minute
)

// Config is what the services of the pipeline have in common that are Kafka's clients.
type Config struct {
	name      string
	bootstrap []string
	tracer    *kotel.Tracer
}

// New connects a service's spans with a collector, if the variable OTEL_TRACES_EXPORTER is otlp; the other OTEL_ variables are the
// SDK's own. Close sends what is left.
func New(ctx context.Context, name string, bootstrap []string) (c Config, stop func(context.Context) error, err error) {
	var options []sdktrace.TracerProviderOption
	if os.Getenv("OTEL_TRACES_EXPORTER") == "otlp" {
		exporter, err := otlptracehttp.New(ctx)
		if err != nil {
			return Config{}, nil, err
		}
		options = append(options, sdktrace.WithBatcher(exporter))
	} else {
		options = append(options, sdktrace.WithSampler(sdktrace.NeverSample()))
	}
	identity, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", name)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return Config{}, nil, fmt.Errorf("describing the process: %w", err)
	}
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithResource(identity))...)
	tracer := kotel.NewTracer(kotel.TracerProvider(provider), kotel.TracerPropagator(propagation.TraceContext{}), kotel.ClientID(name))
	return Config{name: name, bootstrap: bootstrap, tracer: tracer}, provider.Shutdown, nil
}

// options are those of every client, and more.
func (c Config) options(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(c.bootstrap...), kgo.ClientID(c.name), kgo.WithHooks(kotel.NewKotel(kotel.WithTracer(c.tracer)).Hooks()...),
	}, more...)
}

// createTopics has the topics of the pipeline there, and waits for the cluster for that.
func createTopics(ctx context.Context, c Config) error {
	client, err := kgo.NewClient(c.options()...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, createsWithin)
	defer cancel()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		err := create(ctx, kadm.NewClient(client))
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("creating topics: %w", err)
		}
	}
}

func create(ctx context.Context, admin *kadm.Client) error {
	created, err := admin.CreateTopics(ctx, partitions, -1, nil, Orders, Invoices, Rejected)
	if err != nil {
		return err
	}
	var failed []error
	for _, topic := range created.Sorted() {
		if topic.Err != nil && !errors.Is(topic.Err, kerr.TopicAlreadyExists) {
			failed = append(failed, fmt.Errorf("%s: %w", topic.Topic, topic.Err))
		}
	}
	return errors.Join(failed...)
}
