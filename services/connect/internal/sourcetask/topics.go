package sourcetask

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/connect/internal/topiccreation"
)

const (
	// defaultBatchBytes bounds a batch and a record, about as max.request.size of Kafka's producer does.
	defaultBatchBytes = 1000012
	// minBackoff is the first pause before a request is made again, or a poll; each further one is twice as long, up to maxBackoff.
	minBackoff, maxBackoff = 100 * time.Millisecond, 10 * time.Second
	// createTimeout is what the controller may take to create a topic.
	createTimeout = 30 * time.Second
)

// topics are those that the task has produced to. Before the first record a topic is created, if it has to be and the connector says with what, and is
// asked how large its batches may be: brokers refuse larger ones as a whole.
type topics struct {
	groups *topiccreation.Groups // nil: none is created
	admin  *kgo.Client
	log    *zap.Logger

	known map[string]bool // the loop's

	mu sync.Mutex
	// maxMessageBytes is max.message.bytes of topics, as far as it is known.
	maxMessageBytes map[string]int32
}

func newTopics(s *settings, d *Deps) (*topics, error) {
	admin, err := kgo.NewClient(append([]kgo.Opt{kgo.ClientID(s.adminID)}, d.Admin...)...)
	if err != nil {
		return nil, fmt.Errorf("client for topics: %w", err)
	}
	return &topics{groups: s.topics, admin: admin, log: d.Log, known: map[string]bool{}, maxMessageBytes: map[string]int32{}}, nil
}

// batchBytes is what a batch of a topic may have at most. It is called by the producer.
func (t *topics) batchBytes(topic string) int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.maxMessageBytes[topic]; ok {
		return min(n, defaultBatchBytes)
	}
	return defaultBatchBytes
}

// bound is a topic's max.message.bytes in words.
func (t *topics) bound(topic string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.maxMessageBytes[topic]; ok {
		return fmt.Sprintf("is %d", n)
	}
	return "is not known"
}

// prepare has a topic ready to be produced to.
func (t *topics) prepare(ctx context.Context, name string) error {
	if t.known[name] {
		return nil
	}
	if t.groups != nil {
		if err := t.ensure(ctx, name); err != nil {
			return err
		}
	}
	if n, err := t.limit(ctx, name); err != nil {
		t.log.Debug("it is not known how large the batches of a topic may be", zap.String("topic", name), zap.Error(err))
	} else {
		t.mu.Lock()
		t.maxMessageBytes[name] = n
		t.mu.Unlock()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.known[name] = true
	return nil
}

// ensure creates a topic that is not there, and tries again as long as that may help.
func (t *topics) ensure(ctx context.Context, name string) error {
	backoff := minBackoff
	for {
		exists, err := t.exists(ctx, name)
		if err == nil && !exists {
			err = t.create(ctx, t.groups.Topic(name))
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if !transient(err) {
			return fmt.Errorf("topic %q is not there and cannot be created: %w", name, err)
		}
		t.log.Warn("a topic cannot be looked for or created; it is tried again", zap.String("topic", name), zap.Error(err))
		if !pause(ctx, &backoff) {
			return ctx.Err()
		}
	}
}

// transient says whether a request may succeed later: it has met no answer, or one that says so.
func transient(err error) bool {
	var answer *kerr.Error
	return !errors.As(err, &answer) || answer.Retriable
}

func (t *topics) exists(ctx context.Context, name string) (bool, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	response, err := request.RequestWith(ctx, t.admin)
	if err != nil {
		return false, err
	}
	if len(response.Topics) != 1 {
		return false, fmt.Errorf("the brokers tell of %d topics, not of one", len(response.Topics))
	}
	switch code := response.Topics[0].ErrorCode; code {
	case 0, kerr.LeaderNotAvailable.Code:
		return true, nil
	case kerr.UnknownTopicOrPartition.Code:
		return false, nil
	default:
		return false, kerr.ErrorForCode(code)
	}
}

func (t *topics) create(ctx context.Context, topic topiccreation.Topic) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = int32(createTimeout.Milliseconds())
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = topic.Name, topic.Partitions, topic.ReplicationFactor
	for name, value := range topic.Configs {
		one.Configs = append(one.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value})
	}
	request.Topics = append(request.Topics, one)
	response, err := request.RequestWith(ctx, t.admin)
	if err != nil {
		return err
	}
	if len(response.Topics) != 1 {
		return fmt.Errorf("the brokers answer for %d topics, not for one", len(response.Topics))
	}
	answer := &response.Topics[0]
	switch err := kerr.ErrorForCode(answer.ErrorCode); {
	case err == nil:
		t.log.Info("topic created", zap.String("topic", topic.Name), zap.String("group", topic.Group), zap.Int32("partitions", topic.Partitions), zap.Int16("replicas", topic.ReplicationFactor))
	case answer.ErrorCode == kerr.TopicAlreadyExists.Code: // somebody else was quicker
	case answer.ErrorMessage != nil:
		return fmt.Errorf("by group %s, %d partitions, %d replicas: %w: %s", topic.Group, topic.Partitions, topic.ReplicationFactor, err, *answer.ErrorMessage)
	default:
		return fmt.Errorf("by group %s, %d partitions, %d replicas: %w", topic.Group, topic.Partitions, topic.ReplicationFactor, err)
	}
	return nil
}

// limit is max.message.bytes of a topic.
func (t *topics) limit(ctx context.Context, name string) (int32, error) {
	const key = "max.message.bytes"
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name, ConfigNames: []string{key}}}
	response, err := request.RequestWith(ctx, t.admin)
	if err != nil {
		return 0, err
	}
	for _, r := range response.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return 0, err
		}
		for _, c := range r.Configs {
			if c.Name == key && c.Value != nil {
				n, err := strconv.ParseInt(*c.Value, 10, 32)
				return int32(n), err
			}
		}
	}
	return 0, fmt.Errorf("the brokers do not tell %s", key)
}

// pause waits before something is tried again, and says whether it did so to the end.
func pause(ctx context.Context, backoff *time.Duration) bool {
	timer := time.NewTimer(*backoff)
	defer timer.Stop()
	*backoff = min(2**backoff, maxBackoff)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
