//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/cauce-stream/cauce/tests/chaos/internal/history"
)

const (
	// sessionTimeout of all members.
	sessionTimeout = 6 * time.Second
	// commitPause is between two commits of a member.
	commitPause = 50 * time.Millisecond
)

// kinds are how the members of a group share its partitions.
var kinds = []struct {
	name string
	opts []kgo.Opt
}{
	{"cooperative", []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}},
	{"eager", []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}},
	{"consumer", []kgo.Opt{kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}},
}

// member consumes and commits for as long as it runs.
type member struct {
	group, name string
	cl          *kgo.Client
	history     *history.History
	stop        func() // leaves the group, and waits for that
}

// join starts a member of a group.
func join(t *testing.T, h *history.History, seeds []string, group, name string, kind int) *member {
	t.Helper()
	m := &member{group: group, name: name, history: h}
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(seeds...), kgo.ClientID(name), kgo.ConsumerGroup(group), kgo.ConsumeTopics(workTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(sessionTimeout), kgo.HeartbeatInterval(time.Second), kgo.WithHooks(m),
		kgo.FetchMaxWait(time.Second), kgo.MetadataMinAge(100 * time.Millisecond),
		// The waits of Java's clients: retry.backoff.ms and retry.backoff.max.ms.
		kgo.RetryBackoffFn(func(tries int) time.Duration { return min(50*time.Millisecond<<tries, time.Second) }),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			h.Assigned(group, name, got[workTopic], time.Now())
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			h.Revoked(group, name, gone[workTopic], time.Now())
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			h.Lost(group, name, gone[workTopic], time.Now())
		}),
	}, kinds[kind].opts...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	m.cl = cl
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.run(ctx) })
	m.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		cl.CloseAllowingRebalance()
	})
	t.Cleanup(m.stop)
	return m
}

// OnBrokerE2E notes when a heartbeat was answered.
func (m *member) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if (key == kmsg.Heartbeat.Int16() || key == kmsg.ConsumerGroupHeartbeat.Int16()) && e2e.Err() == nil {
		m.history.Heard(m.name, time.Now())
	}
}

func (m *member) run(ctx context.Context) {
	ticker := time.NewTicker(commitPause)
	defer ticker.Stop()
	for ctx.Err() == nil {
		poll, cancel := context.WithTimeout(ctx, time.Second)
		fetches := m.cl.PollRecords(poll, 1000)
		cancel()
		m.commit(ctx, fetches)
		m.cl.AllowRebalance()
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// commit commits what was read. What fails is not known to be committed, and whoever gets the partitions reads on from there.
func (m *member) commit(ctx context.Context, fetches kgo.Fetches) {
	var last []*kgo.Record
	offsets := map[int32]int64{}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) > 0 {
			m.history.Read(m.group, m.name, p.Partition, p.Records[0].Offset)
			r := p.Records[len(p.Records)-1]
			last = append(last, r)
			offsets[p.Partition] = r.Offset + 1
		}
	})
	if len(last) == 0 {
		return
	}
	began := time.Now()
	if m.cl.CommitRecords(ctx, last...) == nil {
		m.history.Committed(m.group, offsets, began, time.Now())
	}
}

// write produces to all partitions until the test ends.
func write(t *testing.T, address string) (stop func()) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic(workTopic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(25 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			for p := range int32(workPartitions) {
				cl.Produce(ctx, &kgo.Record{Partition: p, Value: []byte("work")}, nil)
			}
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		cl.Close()
	})
	t.Cleanup(stop)
	return stop
}

// direct is a client that asks one node only, whoever coordinates what.
func direct(t *testing.T, n *node) *kgo.Broker {
	t.Helper()
	// Later versions name topics by id.
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.kafka), kgo.MaxVersions(kversion.V3_5_0()), kgo.RequestRetries(0), kgo.DialTimeout(time.Second),
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, n.kafka)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl.SeedBrokers()[0]
}

// committed asks a node for a group's committed offsets. An error is one of the group or of the way to the node.
func committed(ctx context.Context, to *kgo.Broker, name string) (map[int32]int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	group, topic := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic()
	group.Group, topic.Topic = name, workTopic
	for p := range int32(workPartitions) {
		topic.Partitions = append(topic.Partitions, p)
	}
	group.Topics = append(group.Topics, topic)
	req.Groups = append(req.Groups, group)
	kresp, err := to.Request(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	resp := kresp.(*kmsg.OffsetFetchResponse)
	if len(resp.Groups) != 1 || resp.Groups[0].Group != name {
		return nil, fmt.Errorf("%s: the answer is about %+v", name, resp.Groups)
	}
	if err := kerr.ErrorForCode(resp.Groups[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	offsets := map[int32]int64{}
	for _, topic := range resp.Groups[0].Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("%s: partition %d: %w", name, p.Partition, err)
			}
			if p.Offset >= 0 {
				offsets[p.Partition] = p.Offset
			}
		}
	}
	return offsets, nil
}
