package anywhere

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node"
	"github.com/cauce-stream/cauce/libs/security"
)

// createPause is how long a node waits after it could not create a coordinators' topic before it tries again: while
// there are too few brokers for it, clients ask all the time.
const createPause = time.Second

// coordinatorTopics creates the coordinators' topics when they are first needed.
type coordinatorTopics struct {
	node member
	log  *zap.Logger

	mu       sync.Mutex
	creating map[string]bool
	pauses   map[string]time.Time // until when not to try again
}

func newCoordinatorTopics(n member, log *zap.Logger) *coordinatorTopics {
	return &coordinatorTopics{node: n, log: log, creating: map[string]bool{}, pauses: map[string]time.Time{}}
}

// create has the controller create a topic, and returns when the node's image has it or it could not be created. It
// returns at once while another request has it created, or had it refused shortly before.
func (c *coordinatorTopics) create(ctx context.Context, topic string) {
	if !c.begin(topic) {
		return
	}
	err := c.request(ctx, topic)
	c.end(topic, err)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("cannot create a topic that coordinators need", zap.String("topic", topic), zap.Error(err))
	}
}

func (c *coordinatorTopics) begin(topic string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.creating[topic] || time.Now().Before(c.pauses[topic]) {
		return false
	}
	c.creating[topic] = true
	return true
}

func (c *coordinatorTopics) end(topic string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.creating, topic)
	if err != nil {
		c.pauses[topic] = time.Now().Add(createPause)
	}
}

// CreateCoordinatorsTopic has the controller create one of the coordinators' topics, with the partitions, replicas and configs that
// they have by the node's configuration, and returns when the node's image has it. One that exists already is no error.
func CreateCoordinatorsTopic(ctx context.Context, n *node.Node, topic string) error {
	return newCoordinatorTopics(n, zap.NewNop()).request(ctx, topic)
}

func (c *coordinatorTopics) request(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, createPatience)
	defer cancel()
	q := kmsg.NewPtrCreateTopicsRequest()
	q.SetVersion(q.MaxVersion())
	q.TimeoutMillis = int32(createPatience.Milliseconds())
	q.Topics = append(q.Topics, topicOf(c.node.Static(), topic))
	body, err := c.node.Forward(ctx, q.Key(), q.Version, q.AppendTo(nil), security.Node(c.node.ID()).String(), "", "")
	if err != nil {
		return err
	}
	resp := q.ResponseKind().(*kmsg.CreateTopicsResponse)
	if err := resp.ReadFrom(body); err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && err != kerr.TopicAlreadyExists {
			if t.ErrorMessage != nil {
				err = fmt.Errorf("%s: %w", *t.ErrorMessage, err)
			}
			return err
		}
	}
	return nil
}

// leastSegmentBytes is the least segment.bytes of a topic. The keys of the coordinators' topics accept less.
const leastSegmentBytes = 1 << 20

// topicOf is a coordinators' topic with the partitions, replicas and configs that Kafka's coordinators give it.
func topicOf(static config.Values, topic string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic = topic
	configs := [][2]string{{"cleanup.policy", "compact"}}
	number := func(key string) string { return strconv.FormatInt(static.Long(key), 10) }
	size := func(key string) string { return strconv.FormatInt(max(static.Long(key), leastSegmentBytes), 10) }
	switch topic {
	case metadata.ConsumerOffsetsTopic:
		t.NumPartitions = int32(static.Int("offsets.topic.num.partitions"))
		t.ReplicationFactor = int16(static.Int("offsets.topic.replication.factor"))
		configs = append(configs,
			[2]string{"compression.type", "producer"},
			[2]string{"segment.bytes", size("offsets.topic.segment.bytes")})
	case metadata.TransactionStateTopic:
		t.NumPartitions = int32(static.Int("transaction.state.log.num.partitions"))
		t.ReplicationFactor = int16(static.Int("transaction.state.log.replication.factor"))
		configs = append(configs,
			[2]string{"compression.type", "uncompressed"},
			[2]string{"segment.bytes", size("transaction.state.log.segment.bytes")},
			[2]string{"min.insync.replicas", number("transaction.state.log.min.isr")},
			[2]string{"unclean.leader.election.enable", "false"})
	}
	for _, kv := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = kv[0], &kv[1]
		t.Configs = append(t.Configs, c)
	}
	return t
}
