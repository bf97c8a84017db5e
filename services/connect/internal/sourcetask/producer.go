package sourcetask

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

const (
	// linger is how long a batch waits for more records, as in Kafka's producer.
	linger = 5 * time.Millisecond
	// unknownTopicRetries and minMetadataAge have a topic looked for during some seconds before it counts as not there.
	unknownTopicRetries = 10
	minMetadataAge      = 500 * time.Millisecond
	// unknownPartitionRetries have a partition that was just added looked for during about a second; after that in vain there is no wait for one
	// of its topic during lackingAge.
	unknownPartitionRetries = 4
	lackingAge              = 10 * time.Second
	// transactionTimeout is after how long the brokers abort a transaction of a task that is silent, as of Kafka's producer.
	transactionTimeout = time.Minute
	// partitionsAge is for how long a partitioner plugin is told the same number of partitions.
	partitionsAge = time.Minute
)

// newProducer makes the client by which records are produced. It never gives up a record that may still be stored, and has one request to each broker on
// its way, so that their order stays.
func newProducer(s *settings, d *Deps, maxBatchBytes func(topic string) int32) (*kgo.Client, error) {
	options := []kgo.Opt{
		kgo.ClientID(s.clientID), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(linger), kgo.UnknownTopicRetries(unknownTopicRetries), kgo.MetadataMinAge(minMetadataAge),
		kgo.MaxBufferedRecords(2 * maxHeldRecords), kgo.ProducerBatchMaxBytesFn(maxBatchBytes),
	}
	if d.ExactlyOnce != nil {
		options = append(options, kgo.TransactionTimeout(transactionTimeout))
	} else if !s.idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	options = append(options, d.Producer...)
	options = append(options, kgo.RecordPartitioner(newPartitioner(s.partitioner)))
	if d.ExactlyOnce != nil {
		options = append(options, kgo.TransactionalID(s.transactionalID))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	return client, nil
}

const kafkaClients = "org.apache.kafka.clients.producer."

// newPartitioner is the producer's partitioner, which honours the partition that a record has.
func newPartitioner(name string) kgo.Partitioner {
	if name == kafkaClients+"RoundRobinPartitioner" {
		return partitioner{kgo.RoundRobinPartitioner()}
	}
	return partitioner{kgo.UniformBytesPartitioner(64<<10, true, true, nil)}
}

// isPlugin says whether a partitioner is none of Kafka's own.
func isPlugin(name string) bool { return name != "" && !strings.HasPrefix(name, kafkaClients) }

type partitioner struct{ kgo.Partitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	own := p.Partitioner.ForTopic(topic)
	if b, ok := own.(kgo.TopicBackupPartitioner); ok {
		return backupPartitioner{topicPartitioner{own}, b}
	}
	return topicPartitioner{own}
}

type topicPartitioner struct{ kgo.TopicPartitioner }

func (p topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition != data.NoPartition || p.TopicPartitioner.RequiresConsistency(r)
}

func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition != data.NoPartition {
		return int(r.Partition)
	}
	return p.TopicPartitioner.Partition(r, n)
}

// backupPartitioner is one that looks at what waits for each partition.
type backupPartitioner struct {
	topicPartitioner
	own kgo.TopicBackupPartitioner
}

func (p backupPartitioner) PartitionByBackup(r *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	if r.Partition != data.NoPartition {
		return int(r.Partition)
	}
	return p.own.PartitionByBackup(r, n, backup)
}

// pluginPartitioner asks a plugin for the partitions of records that have none.
type pluginPartitioner struct {
	name   string
	ask    func(ctx context.Context, name, topic string, partitions int32, records []plugin.Record) ([]int32, error)
	client *kgo.Client
	counts map[string]count
}

type count struct {
	partitions int32
	at         time.Time
}

// assign sets the partitions of records, nil for those that were left out.
func (p *pluginPartitioner) assign(ctx context.Context, records []*kgo.Record) error {
	byTopic := map[string][]*kgo.Record{}
	for _, r := range records {
		if r != nil && r.Partition == data.NoPartition {
			byTopic[r.Topic] = append(byTopic[r.Topic], r)
		}
	}
	for topic, of := range byTopic {
		n, err := p.count(ctx, topic)
		if err != nil {
			return fmt.Errorf("partitions of topic %q: %w", topic, err)
		}
		asked := make([]plugin.Record, len(of))
		for i, r := range of {
			asked[i] = plugin.Record{Key: r.Key, Value: r.Value}
		}
		partitions, err := p.ask(ctx, p.name, topic, n, asked)
		if err != nil {
			return fmt.Errorf("partitioner %q for topic %q: %w", p.name, topic, err)
		}
		for i, r := range of {
			r.Partition = partitions[i]
		}
	}
	return nil
}

// count is how many partitions a topic has. One that is not there may be made by the producer's own asking.
func (p *pluginPartitioner) count(ctx context.Context, topic string) (int32, error) {
	if c, ok := p.counts[topic]; ok && time.Since(c.at) < partitionsAge {
		return c.partitions, nil
	}
	backoff := minBackoff
	for tries := 0; ; tries++ {
		request := kmsg.NewPtrMetadataRequest()
		request.AllowAutoTopicCreation = true
		request.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
		response, err := request.RequestWith(ctx, p.client)
		if err == nil && len(response.Topics) == 1 {
			if err = kerr.ErrorForCode(response.Topics[0].ErrorCode); err == nil {
				n := int32(len(response.Topics[0].Partitions))
				p.counts[topic] = count{n, time.Now()}
				return n, nil
			}
		}
		if err == nil {
			err = fmt.Errorf("the brokers tell of %d topics, not of one", len(response.Topics))
		}
		if !transient(err) || tries == unknownTopicRetries || !pause(ctx, &backoff) {
			return 0, err
		}
	}
}
