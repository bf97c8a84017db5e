// Package lag measures how many records groups are behind: Meter for assignors that want to know, Watch again and again for metrics.
package lag

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
)

// Unknown is a lag or an offset that could not be found out.
const Unknown = -1

// Uncommitted is the committed offset of a partition that has none.
const Uncommitted = -2

const (
	noReplica = -1
	// latest and earliest are timestamps that stand for the log's end and start in ListOffsets.
	latest   = -1
	earliest = -2
)

// The isolation levels of ListOffsets: the latest offset is the high watermark or the last stable offset.
const (
	uncommitted = 0
	committed   = 1
)

// Meter asks brokers for the ends of logs. Its methods are safe for concurrent use.
type Meter struct {
	listener string
	image    func() *metadata.Image
	pool     *client.Pool
}

// New makes a meter that finds leaders in the node's image and asks them at the listener of that name; empty means the
// first one without encryption and authentication. Close must be called.
func New(listener, clientID string, image func() *metadata.Image) *Meter {
	return &Meter{listener: listener, image: image, pool: client.New(client.Config{ClientID: clientID})}
}

// Close ends all connections, and the measurements under way.
func (m *Meter) Close() { m.pool.Close() }

// Measure returns the lag of each partition of topics from the committed offsets, which are in the same order. A partition without
// a committed offset is behind by its whole log at the most: where its consumer begins to read is the consumer's choice (auto.offset.reset). One
// whose leader does not answer until ctx ends has Unknown lag.
func (m *Meter) Measure(ctx context.Context, topics []assignment.Topic, from [][]int64) [][]int64 {
	var ends, starts [][]int64
	var asking sync.WaitGroup
	asking.Go(func() {
		ends = m.offsets(ctx, topics, question{timestamp: latest, wanted: func(i, n int) bool { return from[i][n] != Unknown }})
	})
	asking.Go(func() {
		starts = m.offsets(ctx, topics, question{timestamp: earliest, wanted: func(i, n int) bool { return from[i][n] == Uncommitted }})
	})
	asking.Wait()
	lag := unknown(topics)
	for i := range topics {
		for n, at := range from[i] {
			if at == Uncommitted {
				at = starts[i][n]
			}
			if at != Unknown && ends[i][n] != Unknown {
				lag[i][n] = max(0, ends[i][n]-at)
			}
		}
	}
	return lag
}

// Bounds returns the high watermark and the last stable offset of each wanted partition of topics, Unknown where its leader does not
// answer until ctx ends.
func (m *Meter) Bounds(ctx context.Context, topics []assignment.Topic, wanted func(i, n int) bool) (ends, stables [][]int64) {
	var asking sync.WaitGroup
	asking.Go(func() { stables = m.offsets(ctx, topics, question{latest, committed, wanted}) })
	asking.Go(func() { ends = m.offsets(ctx, topics, question{latest, uncommitted, wanted}) })
	asking.Wait()
	return ends, stables
}

// unknown has one Unknown for each partition.
func unknown(topics []assignment.Topic) [][]int64 {
	all := make([][]int64, len(topics))
	for i, t := range topics {
		all[i] = slices.Repeat([]int64{Unknown}, int(t.Count))
	}
	return all
}

// question is for the offsets at a timestamp of the partitions that are wanted, by topic and number.
type question struct {
	timestamp int64
	isolation int8
	wanted    func(i, n int) bool
}

func (m *Meter) offsets(ctx context.Context, topics []assignment.Topic, q question) [][]int64 {
	places := make(map[string]int, len(topics))
	for i, t := range topics {
		places[t.Name] = i
	}
	offsets := unknown(topics)
	var mu sync.Mutex
	var asking sync.WaitGroup
	for addr, request := range m.requests(topics, q) {
		asking.Go(func() {
			response, err := m.pool.Do(ctx, addr, request)
			if err != nil {
				return // unknown, which the assignor is told
			}
			mu.Lock()
			defer mu.Unlock()
			for _, t := range response.(*kmsg.ListOffsetsResponse).Topics {
				i, ok := places[t.Topic]
				for _, p := range t.Partitions {
					if ok && p.ErrorCode == 0 && p.Partition >= 0 && p.Partition < topics[i].Count {
						offsets[i][p.Partition] = p.Offset
					}
				}
			}
		})
	}
	asking.Wait()
	return offsets
}

// requests are those to each leader, by address, that put a question.
func (m *Meter) requests(topics []assignment.Topic, q question) map[string]*kmsg.ListOffsetsRequest {
	im := m.image()
	requests := map[string]*kmsg.ListOffsetsRequest{}
	for i, asked := range topics {
		t, ok := im.Topic(asked.Name)
		if !ok || t.ID != asked.ID {
			continue
		}
		for n := range min(int(asked.Count), len(t.Partitions)) {
			addr, ok := m.address(im, t.Partitions[n].Leader)
			if !ok || !q.wanted(i, n) {
				continue
			}
			r := requests[addr]
			if r == nil {
				r = kmsg.NewPtrListOffsetsRequest()
				r.ReplicaID, r.IsolationLevel = noReplica, q.isolation
				requests[addr] = r
			}
			if last := len(r.Topics) - 1; last < 0 || r.Topics[last].Topic != asked.Name {
				r.Topics = append(r.Topics, kmsg.ListOffsetsRequestTopic{Topic: asked.Name})
			}
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = int32(n), q.timestamp
			list := &r.Topics[len(r.Topics)-1].Partitions
			*list = append(*list, p)
		}
	}
	return requests
}

func (m *Meter) address(im *metadata.Image, node int32) (string, bool) {
	n, ok := im.Node(node)
	if !ok {
		return "", false
	}
	l, ok := n.PeerListener(m.listener)
	return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))), ok
}
