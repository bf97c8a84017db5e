//go:build chaos

package chaos

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cauce-stream/cauce/tests/chaos/internal/schedule"
)

// logDirs of each broker, on its one disk.
const logDirs = "data/log-a,data/log-b"

// movePause is between two moves, so that some are over before the next and some are replaced by it.
const movePause = 200 * time.Millisecond

// moveReplicas has each partition in turn lose one of its replicas, its leader too, and get it back. What the cluster cannot do
// meanwhile it refuses; converge gives back what is missing in the end.
func (b *breaker) moveReplicas(ctx context.Context, s schedule.Step) error {
	end := time.Now().Add(s.For)
	moved, refused := 0, map[string]bool{}
	for turn := 0; time.Now().Before(end); turn++ {
		p := b.partitions[turn%len(b.partitions)]
		without := b.brokers[turn/len(b.partitions)%len(b.brokers)]
		fewer := slices.DeleteFunc(slices.Clone(b.brokers), func(id int32) bool { return id == without })
		for _, replicas := range [][]int32{fewer, b.brokers} {
			if err := assign(ctx, b.admin, p, replicas); err != nil {
				refused[err.Error()] = true
			} else {
				moved++
			}
			pause(movePause)
		}
	}
	b.note("%s: %d reassignments, refused for %v", s.Fault, moved, slices.Sorted(maps.Keys(refused)))
	return nil
}

// assignTimeout is longer than any node tries to have a reassignment decided: one that is given up earlier may still be done,
// even after a later one.
const assignTimeout = 20 * time.Second

// assign has a partition reassigned.
func assign(ctx context.Context, admin *kadm.Client, p partition, replicas []int32) error {
	ctx, cancel := context.WithTimeout(ctx, assignTimeout)
	defer cancel()
	var request kadm.AlterPartitionAssignmentsReq
	request.Assign(p.topic, p.id, replicas)
	answer, err := admin.AlterPartitionAssignments(ctx, request)
	return cmp.Or(err, answer.Error())
}

// moveDirectories has each broker in turn move a replica to its other log directory.
func (b *breaker) moveDirectories(ctx context.Context, s schedule.Step) error {
	ctx, cancel := context.WithTimeout(ctx, s.For)
	defer cancel()
	moved, refused := 0, map[string]bool{}
	for turn := 0; ctx.Err() == nil; turn++ {
		p := b.partitions[turn/len(b.brokers)%len(b.partitions)]
		if err := b.moveDirectory(ctx, b.brokers[turn%len(b.brokers)], p); err != nil {
			refused[err.Error()] = true
		} else {
			moved++
		}
		pause(movePause / 2)
	}
	b.note("%s: %d replicas, refused for %v", s.Fault, moved, slices.Sorted(maps.Keys(refused)))
	return nil
}

func (b *breaker) moveDirectory(ctx context.Context, broker int32, p partition) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	set := kadm.TopicsSet{}
	set.Add(p.topic, p.id)
	dirs, err := b.admin.DescribeBrokerLogDirs(ctx, broker, set)
	if err != nil {
		return err
	}
	for _, d := range dirs.Sorted() {
		if _, here := d.Topics.Lookup(p.topic, p.id); here {
			continue
		}
		var request kadm.AlterReplicaLogDirsReq
		request.Add(d.Dir, set)
		answer, err := b.admin.AlterBrokerReplicaLogDirs(ctx, broker, request)
		return cmp.Or(err, answer[p.topic][p.id].Err)
	}
	return fmt.Errorf("a replica is in every directory")
}

// movesEnd says which partition is on its way, or has fewer replicas than there are brokers; those are given back.
func (r *replicated) movesEnd(ctx context.Context, topics kadm.TopicDetails) error {
	set := kadm.TopicsSet{}
	var brokers []int32
	for _, n := range nodesOf(r.t, r.cluster, "broker") {
		brokers = append(brokers, n.ID)
	}
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			set.Add(topic.Topic, p.Partition)
			if len(p.Replicas) < len(brokers) {
				err := assign(ctx, r.admin, partition{topic.Topic, p.Partition}, brokers)
				return fmt.Errorf("%s-%d has the replicas %v, and gets them all (%v)", topic.Topic, p.Partition, p.Replicas, err)
			}
		}
	}
	reassigning, err := r.admin.ListPartitionReassignments(ctx, set)
	if err != nil || len(reassigning) > 0 {
		return fmt.Errorf("reassignments: %v (%w)", reassigning, err)
	}
	dirs, err := r.admin.DescribeAllLogDirs(ctx, set)
	if err != nil {
		return err
	}
	dirs.Each(func(d kadm.DescribedLogDir) {
		for _, p := range d.Topics.Sorted() {
			if p.IsFuture && err == nil {
				err = fmt.Errorf("%s-%d moves to %s of broker %d", p.Topic, p.Partition, d.Dir, d.Broker)
			}
		}
		err = cmp.Or(err, d.Err)
	})
	return err
}
