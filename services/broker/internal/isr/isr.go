// Package isr takes the wishes of leaders for other in-sync replicas to the controller: one request at a time, with all that
// have gathered since the last.
package isr

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
	"github.com/cauce-stream/cauce/services/broker/internal/replication"
)

const (
	// maxPartitions bounds one request.
	maxPartitions = 1000
	// retryPause is between two requests of which the first failed.
	retryPause = 100 * time.Millisecond
)

// Alter has the controller decide (node.AlterPartitions).
type Alter func(ctx context.Context, wishes []*controlpb.AlterPartitionRequest_Topic) ([]*controlpb.AlterPartitionResponse_Topic, error)

// Queue is the wishes that wait to be sent. A partition has one at most: while it waits or is under way the leader makes no
// other, unless newer metadata has ended it.
type Queue struct {
	log  *zap.Logger
	wake chan struct{} // has one token when there may be something to send

	mu     sync.Mutex
	wishes map[*partition.Partition]*replication.Proposal
}

// New makes an empty queue.
func New(log *zap.Logger) *Queue {
	return &Queue{log: log, wake: make(chan struct{}, 1), wishes: map[*partition.Partition]*replication.Proposal{}}
}

// Propose queues a wish. It does not wait.
func (q *Queue) Propose(p *partition.Partition, proposal *replication.Proposal) {
	q.mu.Lock()
	q.wishes[p] = proposal
	q.mu.Unlock()
	q.signal()
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Run sends wishes until ctx ends.
func (q *Queue) Run(ctx context.Context, alter Alter) {
	for {
		select {
		case <-q.wake:
		case <-ctx.Done():
			return
		}
		if failed := q.send(ctx, alter); !failed {
			continue
		}
		pause := time.NewTimer(retryPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
	}
}

// wish is one of a request.
type wish struct {
	partition *partition.Partition
	proposal  *replication.Proposal
}

// key names the partition in an answer.
type key struct {
	topic     metadata.TopicID
	partition int32
}

// send makes one request, and queues again what it could not settle.
func (q *Queue) send(ctx context.Context, alter Alter) (failed bool) {
	sent, request := q.take()
	if len(sent) == 0 {
		return false
	}
	answers, err := alter(ctx, request)
	if err != nil {
		q.log.Warn("changes of in-sync replicas are not decided", zap.Int("partitions", len(sent)), zap.Error(err))
	}
	for _, t := range answers {
		if len(t.GetTopicId()) != len(metadata.TopicID{}) {
			continue
		}
		for _, p := range t.GetPartitions() {
			k := key{metadata.TopicID(t.GetTopicId()), p.GetPartition()}
			w, ok := sent[k]
			if !ok {
				continue
			}
			delete(sent, k)
			if q.decided(w, p) {
				sent[k] = w
			}
		}
	}
	for _, w := range sent {
		q.again(w)
	}
	return len(sent) > 0
}

// decided hands on an answer, and says whether the wish has to be sent again.
func (q *Queue) decided(w wish, p *controlpb.AlterPartitionResponse_Partition) (again bool) {
	d := replication.Decision{LeaderEpoch: p.GetLeaderEpoch(), PartitionEpoch: p.GetPartitionEpoch(), ISR: p.GetIsr()}
	if err := kerr.ErrorForCode(int16(p.GetErrorCode())); err != nil && !errors.As(err, &d.Err) {
		d.Err = kerr.UnknownServerError
	}
	if d.Err != nil {
		q.log.Info("change of in-sync replicas is refused", zap.Stringer("partition", w.partition), zap.Error(d.Err))
	} else {
		q.log.Info("in-sync replicas changed", zap.Stringer("partition", w.partition),
			zap.Int32s("isr", d.ISR), zap.Int32("partitionEpoch", d.PartitionEpoch))
	}
	return w.partition.Decided(w.proposal, d)
}

// again queues a wish that was sent in vain, unless the leader has another by now.
func (q *Queue) again(w wish) {
	q.mu.Lock()
	if q.wishes[w.partition] == nil {
		q.wishes[w.partition] = w.proposal
	}
	q.mu.Unlock()
	q.signal()
}

// take makes a request of what is queued and still wished for.
func (q *Queue) take() (map[key]wish, []*controlpb.AlterPartitionRequest_Topic) {
	q.mu.Lock()
	queued := make([]wish, 0, min(len(q.wishes), maxPartitions))
	for p, proposal := range q.wishes {
		if len(queued) == maxPartitions {
			q.signal()
			break
		}
		queued = append(queued, wish{p, proposal})
		delete(q.wishes, p)
	}
	q.mu.Unlock()
	sent := map[key]wish{}
	topics := map[metadata.TopicID]*controlpb.AlterPartitionRequest_Topic{}
	var request []*controlpb.AlterPartitionRequest_Topic
	for _, w := range queued {
		if !w.partition.Pending(w.proposal) {
			continue
		}
		id := w.partition.Topic.ID
		t := topics[id]
		if t == nil {
			t = &controlpb.AlterPartitionRequest_Topic{TopicId: id[:]}
			topics[id] = t
			request = append(request, t)
		}
		t.Partitions = append(t.Partitions, wire(w))
		sent[key{id, w.partition.ID}] = w
	}
	return sent, request
}

func wire(w wish) *controlpb.AlterPartitionRequest_Partition {
	p := &controlpb.AlterPartitionRequest_Partition{
		Partition: w.partition.ID, LeaderEpoch: w.proposal.LeaderEpoch, PartitionEpoch: w.proposal.PartitionEpoch,
		// A leader from outside of the in-sync replicas has recovered once it leads (KIP-704).
		LeaderRecoveryState: int32(metadata.LeaderRecovered),
	}
	for _, m := range w.proposal.ISR {
		p.Isr = append(p.Isr, &controlpb.AlterPartitionRequest_Replica{NodeId: m.Node, NodeEpoch: m.Epoch})
	}
	return p
}
