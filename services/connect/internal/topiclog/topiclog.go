// Package topiclog is an internal topic of Connect as a log: made if it is not there, read from its beginning to its end and on, over the Kafka
// protocol.
//
// A Reader knows how far it has read to the offset, whatever compaction and transactions have left there: offsets without a record, batches without
// any, markers. That is what lets a worker say that it has seen all that others had written.
package topiclog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// Config says which topic is read and how.
type Config struct {
	Topic string
	// Bootstrap are brokers to find the topic's by, host:port each.
	Bootstrap []string
	// Committed has what transactions wrote read once they are committed, and not if they are aborted (read_committed).
	Committed bool
	// MaxWait is how long a broker holds a fetch that finds nothing.
	MaxWait time.Duration
	// RetryBackoff is the pause after a request that failed.
	RetryBackoff time.Duration
	// MaxBytes bounds what one broker answers to a fetch.
	MaxBytes int32
}

// Deps are what a log does not do itself.
type Deps struct {
	Log *zap.Logger
	// Do sends a request to host:port. Fetch does so over connections that are this reader's alone: brokers hold a fetch that finds nothing, and what
	// is sent after it on the same connection.
	Do, Fetch func(ctx context.Context, addr string, req kmsg.Request) (kmsg.Response, error)
}

// Record is one record that was read. Its bytes are the receiver's.
type Record struct {
	Partition           int32
	Offset, TimestampMs int64
	Key, Value          []byte
}

// cluster is what a metadata answer says of the topic.
type cluster struct {
	topicID [16]byte
	// leaders are host:port by partition, empty where there is none at the moment.
	leaders    []string
	controller string
}

// errNoTopic is wrapped by what describe says of a topic that there is not.
var errNoTopic = errors.New("the topic does not exist")

// describe asks the brokers in turn for the topic.
func describe(ctx context.Context, d Deps, bootstrap []string, topic string) (cluster, error) {
	req := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, one)
	var faults []error
	for _, broker := range bootstrap {
		answer, err := d.Do(ctx, broker, req)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		return parse(answer.(*kmsg.MetadataResponse), topic)
	}
	return cluster{}, fmt.Errorf("topic %q: %w", topic, errors.Join(faults...))
}

func parse(resp *kmsg.MetadataResponse, topic string) (cluster, error) {
	brokers := map[int32]string{}
	for _, b := range resp.Brokers {
		brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	c := cluster{controller: brokers[resp.ControllerID]}
	if len(resp.Topics) != 1 {
		return c, fmt.Errorf("topic %q: the answer is about %d topics", topic, len(resp.Topics))
	}
	t := resp.Topics[0]
	if t.ErrorCode == kerr.UnknownTopicOrPartition.Code {
		return c, fmt.Errorf("topic %q: %w", topic, errNoTopic)
	}
	if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
		return c, fmt.Errorf("topic %q: %w", topic, err)
	}
	c.topicID = t.TopicID
	c.leaders = make([]string, len(t.Partitions))
	for _, p := range t.Partitions {
		if p.Partition < 0 || int(p.Partition) >= len(c.leaders) {
			return c, fmt.Errorf("topic %q: the answer has partition %d of %d", topic, p.Partition, len(c.leaders))
		}
		c.leaders[p.Partition] = brokers[p.Leader]
	}
	return c, nil
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
