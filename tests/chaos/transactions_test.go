//go:build chaos

package chaos

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/chaos/internal/endings"
	"github.com/cauce-stream/cauce/tests/chaos/internal/isolation"
	"github.com/cauce-stream/cauce/tests/chaos/internal/schedule"
	"github.com/cauce-stream/cauce/tests/chaos/internal/transfers"
	"github.com/cauce-stream/cauce/tests/finding"
)

const (
	transactionState      = "__transaction_state"
	committedOffsets      = "__consumer_offsets"
	coordinatorPartitions = 4 // of each of these topics
)

// TestTransactionsSurviveFaults breaks three controllers, three brokers, two coordinators of groups and two of transactions in the ways
// that a seed draws, while clients move amounts from topic to topic in transactions. Clients end in the middle of them and begin anew with
// the same transactional id, at times while the one before goes on. Afterwards everything has to be moved by itself, and
// packages isolation and transfers hold what clients were told and given against what is there.
//
// -seed N begins with schedule N, and repeats it with -seeds 1.
func TestTransactionsSurviveFaults(t *testing.T) { forSeeds(t, surviveInTransactions) }

func surviveInTransactions(t *testing.T, seed uint64) {
	faults, missing := possibleFaults()
	for _, m := range missing {
		t.Log(m)
	}
	faults = append(faults, schedule.KillCoordinator, schedule.KillCoordinators, schedule.PauseCoordinator, schedule.RestartCoordinator)
	if len(missing) == 0 {
		faults = append(faults, schedule.CutCoordinator)
	}
	if *clocks != "" {
		faults = append(faults, schedule.JumpCoordinatorClock)
	}
	c, disks := startReplicated(t, len(missing) == 0, "--groupcoords", "2", "--txncoords", "2", "--racks", "3",
		"--set", "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
		"--set", fmt.Sprint("transaction.state.log.num.partitions=", coordinatorPartitions),
		"--set", fmt.Sprint("offsets.topic.num.partitions=", coordinatorPartitions),
		"--set", "group.initial.rebalance.delay.ms=300", "--set", "group.consumer.min.session.timeout.ms=6000",
		"--set", fmt.Sprint("group.consumer.session.timeout.ms=", sessionTimeout.Milliseconds()),
		"--set", "group.consumer.min.heartbeat.interval.ms=500", "--set", "group.consumer.heartbeat.interval.ms=1000")
	seeds := bootstrap(t, c)
	client, err := kgo.NewClient(impatient(seeds)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r := &replicated{t: t, cluster: c, admin: kadm.NewClient(client)}
	for _, topic := range pipeTopics() {
		r.createTopic(topic, pipePartitions)
	}
	var partitions []partition
	for _, list := range pipeLists() {
		partitions = append(partitions, partition{list.Topic, list.Partition})
	}
	for p := range int32(coordinatorPartitions) {
		partitions = append(partitions, partition{transactionState, p}, partition{committedOffsets, p})
	}
	coordinators := append(ids(t, c, "groupcoord"), ids(t, c, "txncoord")...)
	steps := schedule.Draw(seed, schedule.Plan{Faults: faults, Length: *length, Brokers: 3, Coordinators: len(coordinators), Partitions: int32(len(partitions))})
	for _, s := range steps {
		t.Log("planned: ", s)
	}
	p := startPipeline(t, seeds, rand.New(rand.NewPCG(seed, 2)))
	b := &breaker{t: t, cluster: c, client: client, admin: r.admin, brokers: ids(t, c, "broker"), controllers: ids(t, c, "controller"),
		coordinators: coordinators, partitions: partitions, disks: disks}
	b.run(steps)
	p.calm.Store(true)
	healed := time.Now()
	r.converge(append(pipeTopics(), transactionState, committedOffsets)...)
	t.Logf("whole again after %v", time.Since(healed).Round(time.Millisecond))
	p.stopPaying()
	p.paying.Wait()
	stopped := time.Now()
	groups := r.drain(p)
	t.Logf("all is moved after %v", time.Since(stopped).Round(time.Millisecond))
	p.stopMoving()
	p.moving.Wait()
	r.checkPipeline(p, groups)
}

// drain waits until every committed amount was moved as far as it goes, and returns what the groups have committed.
func (r *replicated) drain(p *pipeline) (groups []transfers.Group) {
	r.t.Helper()
	r.until("all is moved", func(ctx context.Context) error {
		if err := r.isThrough(ctx, p, p.reached); err != nil {
			return err
		}
		groups = nil
		for i, m := range movers {
			g := transfers.Group{Name: groupOf(i), Next: map[isolation.List]int64{}}
			committed, err := r.admin.FetchOffsets(ctx, g.Name)
			if err = cmp.Or(err, committed.Error()); err != nil {
				return fmt.Errorf("%s: %w", g.Name, err)
			}
			for id := range int32(pipePartitions) {
				list := isolation.List{Topic: m.topic, Partition: id}
				g.Next[list] = max(committed[m.topic][id].At, 0)
				if last := p.lastRead(list); last >= g.Next[list] {
					return fmt.Errorf("%s has committed %v@%d, and an amount is at %d", g.Name, list, g.Next[list], last)
				}
			}
			groups = append(groups, g)
		}
		return r.isThrough(ctx, p, p.reached) // an amount may have been put meanwhile behind what was looked at first
	})
	return groups
}

// isThrough says which partitions have more than a reader has read, that is at the offsets next. Where a transaction is open, it is
// not through.
func (r *replicated) isThrough(ctx context.Context, p *pipeline, next map[isolation.List]int64) error {
	ends, err := r.admin.ListEndOffsets(ctx, pipeTopics()...)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range pipeLists() {
		if end := ends[list.Topic][list.Partition].Offset; next[list] < end {
			err = errors.Join(err, fmt.Errorf("the reader is at %v@%d, the end at %d", list, next[list], end))
		}
	}
	return err
}

// lastRead is the offset of the last amount that the reader was given, -1 if there is none.
func (p *pipeline) lastRead(list isolation.List) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sights := p.reader[list].Sights; len(sights) > 0 {
		return sights[len(sights)-1].Offset
	}
	return -1
}

// checkPipeline reads everything once more, and holds what clients were told and given against it.
func (r *replicated) checkPipeline(p *pipeline, groups []transfers.Group) {
	r.t.Helper()
	p.stopReading()
	p.reading.Wait()
	lists := r.readAll(p)
	history, entries := p.history(lists), p.entries(lists)
	for _, remark := range p.remarks {
		r.t.Log(remark)
	}
	for _, f := range p.failures {
		r.t.Error(f)
	}
	found := slices.Concat(isolation.Check(history), transfers.Check(entries, groups), r.endings())
	for _, f := range found {
		r.t.Errorf("%s, %d times:\n\t%s", f.Kind, f.Count, strings.Join(f.Examples, "\n\t"))
	}
	outcomes := map[isolation.Outcome]int{}
	for _, t := range history.Txns {
		outcomes[t.Outcome]++
	}
	r.t.Logf("%d transactions committed, %d aborted, %d unknown; %d amounts, %d views", outcomes[isolation.Committed],
		outcomes[isolation.Aborted], outcomes[isolation.Unknown], len(entries), len(history.Views))
	if outcomes[isolation.Committed] == 0 {
		r.t.Error("nothing was committed")
	}
}

// readAll reads all committed amounts, from the first to the last.
func (r *replicated) readAll(p *pipeline) map[isolation.List][]isolation.Sight {
	r.t.Helper()
	views, next := map[isolation.List]*isolation.View{}, map[isolation.List]int64{}
	for _, list := range pipeLists() {
		views[list] = &isolation.View{Reader: "the end", List: list}
	}
	ctx, stop := context.WithCancel(r.t.Context())
	p.reading.Go(func() { p.follow(ctx, "the end", "", views, next) })
	r.until("everything is read", func(ctx context.Context) error { return r.isThrough(ctx, p, next) })
	stop()
	p.reading.Wait()
	lists := map[isolation.List][]isolation.Sight{}
	for list, v := range views {
		lists[list] = v.Sights
	}
	return lists
}

// endings waits until every transaction has ended in every partition, and says how they ended.
func (r *replicated) endings() (found finding.List) {
	r.t.Helper()
	r.until("every transaction ends", func(context.Context) error {
		found = endings.Check(r.logs())
		if i := slices.IndexFunc(found, func(f finding.Finding) bool { return f.Kind == endings.Unended }); i >= 0 {
			return fmt.Errorf("%s, %d times: %v", endings.Unended, found[i].Count, found[i].Examples)
		}
		return nil
	})
	return found
}

// logs are those of all partitions that transactions write to, of which the replicas have to be equal.
func (r *replicated) logs() map[string][]byte {
	r.t.Helper()
	partitions := []partition{}
	for _, list := range pipeLists() {
		partitions = append(partitions, partition{list.Topic, list.Partition})
	}
	for p := range int32(coordinatorPartitions) {
		partitions = append(partitions, partition{committedOffsets, p})
	}
	logs := map[string][]byte{}
	for _, p := range partitions {
		logs[p.String()] = r.equalReplicas(p)
	}
	return logs
}

// equalReplicas waits until the replicas of a partition have equally much, demands that it is the same, and returns it.
func (r *replicated) equalReplicas(p partition) (data []byte) {
	r.t.Helper()
	r.until(fmt.Sprintf("the replicas of %v have equally much", p), func(context.Context) error {
		all := r.replicas(p.topic, p.id)
		data = all[0].Data
		for _, replica := range all[1:] {
			if len(replica.Data) != len(data) {
				return fmt.Errorf("nodes %d and %d have %d and %d bytes", all[0].Node, replica.Node, len(data), len(replica.Data))
			}
			if !bytes.Equal(replica.Data, data) {
				r.t.Errorf("nodes %d and %d have different bytes of %v", all[0].Node, replica.Node, p)
			}
		}
		return nil
	})
	return data
}
