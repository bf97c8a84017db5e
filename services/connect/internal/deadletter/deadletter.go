// Package deadletter writes the records of a sink that have failed to a topic of their own, the dead letter queue, as they were, and says in headers
// what has happened to them if the connector wants that.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
)

// Config is what errors.deadletterqueue.* of a connector say.
type Config struct {
	// Topic is empty where there is no dead letter queue.
	Topic string
	// ReplicationFactor is the topic's, if it is created; -1 for the brokers' default.
	ReplicationFactor int16
	// ContextHeaders has each record say what has happened to it.
	ContextHeaders bool
}

const (
	topicKey  = "errors.deadletterqueue.topic.name"
	factorKey = "errors.deadletterqueue.topic.replication.factor"
	headerKey = "errors.deadletterqueue.context.headers.enable"
)

var definition = configdef.Definition{
	{Name: topicKey, Type: configdef.String, Default: new(""), Importance: configdef.Medium, Doc: "Topic that records which have failed go to; none if empty."},
	{Name: factorKey, Type: configdef.Short, Default: new("3"), Importance: configdef.Medium, Valid: configdef.Rule{Min: new(-1.0)}, Doc: "Replicas of that topic if it is created."},
	{Name: headerKey, Type: configdef.Boolean, Default: new("false"), Importance: configdef.Medium, Doc: "Whether headers say what has happened."},
}

// Parse reads a connector's configuration. It refuses a topic that the connector reads, as its failures would come back to it for ever.
func Parse(properties map[string]string, reads func(topic string) bool) (Config, error) {
	v, err := definition.Parse(properties)
	if err != nil {
		return Config{}, err
	}
	c := Config{Topic: v.String(topicKey), ReplicationFactor: int16(v.Int(factorKey)), ContextHeaders: v.Bool(headerKey)}
	if c.Topic != "" && reads(c.Topic) {
		return Config{}, fmt.Errorf("%s is %q, which is one of the topics that the connector reads", topicKey, c.Topic)
	}
	return c, nil
}

// Deps are what a Queue does not do itself.
type Deps struct {
	Log     *zap.Logger
	Metrics *pipeline.Metrics
	// Producer and Admin configure the clients that write to the topic and that create it.
	Producer, Admin []kgo.Opt
}

// Queue is a task's. Report is for any goroutine.
type Queue struct {
	config    Config
	connector string
	task      int
	deps      Deps
	client    *kgo.Client

	mu  sync.Mutex
	err error // the first record that could not be written
}

// Open creates the topic, if it is not there, and returns a queue to be closed. It has taken up to ctx.
func Open(ctx context.Context, c Config, connector string, task int, d Deps) (*Queue, error) {
	if err := ensure(ctx, c, connector, task, d); err != nil {
		return nil, fmt.Errorf("dead letter queue %q: %w", c.Topic, err)
	}
	opts := append([]kgo.Opt{kgo.ClientID(fmt.Sprintf("connector-dlq-producer-%s-%d", connector, task)), kgo.ProducerLinger(0)}, d.Producer...)
	client, err := kgo.NewClient(append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))...)
	if err != nil {
		return nil, fmt.Errorf("dead letter queue %q: %w", c.Topic, err)
	}
	return &Queue{config: c, connector: connector, task: task, deps: d, client: client}, nil
}

// retryBackoff is the pause before the brokers are asked again for a topic that is being created.
const retryBackoff = 100 * time.Millisecond

// ensure returns when the topic has a leader for each of its partitions.
func ensure(ctx context.Context, c Config, connector string, task int, d Deps) error {
	opts := append([]kgo.Opt{kgo.ClientID(fmt.Sprintf("connector-dlq-adminclient-%s-%d", connector, task))}, d.Admin...)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	created := false
	for {
		err := look(ctx, client, c.Topic)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, kerr.UnknownTopicOrPartition) && !created:
			if err := create(ctx, client, c); err != nil {
				return err
			}
			created = true
			d.Log.Info("created the topic of a dead letter queue", zap.String("topic", c.Topic))
		case !kerr.IsRetriable(err):
			return err
		}
		timer := time.NewTimer(retryBackoff)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(ctx.Err(), err)
		}
	}
}

func look(ctx context.Context, client *kgo.Client, topic string) error {
	req := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, one)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("the answer is about %d topics", len(resp.Topics))
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		return err
	}
	for _, p := range resp.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

func create(ctx context.Context, client *kgo.Client, c Config) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = c.Topic, 1, c.ReplicationFactor
	req.Topics = append(req.Topics, one)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("create it: %w", err)
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("create it: the answer is about %d topics", len(resp.Topics))
	}
	t := resp.Topics[0]
	err = kerr.ErrorForCode(t.ErrorCode)
	if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	if t.ErrorMessage != nil {
		err = fmt.Errorf("%w: %s", err, *t.ErrorMessage)
	}
	return fmt.Errorf("create it with %s=%d: %w", factorKey, c.ReplicationFactor, err)
}

// Report writes the record of a failure; Flush says whether that has worked. It waits while too much waits to be written already.
func (q *Queue) Report(ctx context.Context, f *pipeline.Failure) {
	q.deps.Metrics.DeadLetterRequests.Add(1)
	q.client.Produce(ctx, q.record(f), func(_ *kgo.Record, err error) {
		if err == nil {
			return
		}
		q.deps.Metrics.DeadLetterFailures.Add(1)
		q.deps.Log.Error("a record that had failed cannot be written to the dead letter queue",
			zap.String("topic", q.config.Topic), zap.Error(err))
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.err == nil {
			q.err = fmt.Errorf("dead letter queue %q: %w: %w", q.config.Topic, err, f)
		}
	})
}

func (q *Queue) record(f *pipeline.Failure) *kgo.Record {
	c := f.Consumed
	r := &kgo.Record{Topic: q.config.Topic, Key: c.Key, Value: c.Value, Timestamp: c.Timestamp, Headers: slices.Clone(c.Headers)}
	if !q.config.ContextHeaders {
		return r
	}
	for _, h := range [][2]string{
		{"topic", c.Topic},
		{"partition", strconv.Itoa(int(c.Partition))},
		{"offset", strconv.FormatInt(c.Offset, 10)},
		{"connector.name", q.connector},
		{"task.id", strconv.Itoa(q.task)},
		{"stage", string(f.Stage)},
		{"class.name", f.Class},
		{"exception.class.name", f.Exception()},
		{"exception.message", f.Err.Error()},
		{"exception.stacktrace", f.Trace()},
	} {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "__connect.errors." + h[0], Value: []byte(h[1])})
	}
	return r
}

// Flush returns once all that was reported is acknowledged by all replicas in sync. After an error nothing more counts as written: the offsets of
// what was reported are not to be committed.
func (q *Queue) Flush(ctx context.Context) error {
	if q.client.BufferedProduceRecords() > 0 {
		if err := q.client.Flush(ctx); err != nil {
			return fmt.Errorf("dead letter queue %q: %w", q.config.Topic, err)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// Close gives up what is not written yet.
func (q *Queue) Close() { q.client.Close() }
