// Package lag measures how many records a group is behind, for assignors that want to know.
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

// Unknown is the lag of a partition that could not be measured, and the committed offset of one that has none.
const Unknown = -1

const (
	noReplica = -1
	latest    = -1 // timestamp that stands for the log's end in ListOffsets
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

// Measure returns the lag of each partition of topics, given the committed offsets in the same order. A partition without
// a committed offset, or whose leader does not answer until ctx ends, has Unknown lag.
func (m *Meter) Measure(ctx context.Context, topics []assignment.Topic, committed [][]int64) [][]int64 {
	places := make(map[string]int, len(topics))
	lag := make([][]int64, len(topics))
	for i, t := range topics {
		places[t.Name] = i
		lag[i] = slices.Repeat([]int64{Unknown}, int(t.Count))
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for addr, request := range m.requests(topics, committed) {
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
						lag[i][p.Partition] = max(0, p.Offset-committed[i][p.Partition])
					}
				}
			}
		})
	}
	asking.Wait()
	return lag
}

// requests are those to each leader, by address, about the partitions that have a committed offset.
func (m *Meter) requests(topics []assignment.Topic, committed [][]int64) map[string]*kmsg.ListOffsetsRequest {
	im := m.image()
	requests := map[string]*kmsg.ListOffsetsRequest{}
	for i, asked := range topics {
		t, ok := im.Topic(asked.Name)
		if !ok || t.ID != asked.ID {
			continue
		}
		for n, offset := range committed[i] {
			if offset == Unknown || n >= len(t.Partitions) {
				continue
			}
			addr, ok := m.address(im, t.Partitions[n].Leader)
			if !ok {
				continue
			}
			r := requests[addr]
			if r == nil {
				r = kmsg.NewPtrListOffsetsRequest()
				r.ReplicaID = noReplica
				requests[addr] = r
			}
			if last := len(r.Topics) - 1; last < 0 || r.Topics[last].Topic != asked.Name {
				r.Topics = append(r.Topics, kmsg.ListOffsetsRequestTopic{Topic: asked.Name})
			}
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = int32(n), latest
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
	for _, l := range n.Listeners {
		const plaintext = 0
		if l.Name == m.listener || m.listener == "" && l.SecurityProtocol == plaintext {
			return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))), true
		}
	}
	return "", false
}
