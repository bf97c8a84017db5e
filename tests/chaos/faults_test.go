//go:build chaos

package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/chaos/internal/schedule"
	"github.com/cauce-stream/cauce/tests/localcluster"
)

// askTimeout bounds a question about who leads: where nobody answers, the fault befalls another node.
const askTimeout = 2 * time.Second

// partition of a topic.
type partition struct {
	topic string
	id    int32
}

func (p partition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.id) }

// breaker does what a schedule says to a cluster.
type breaker struct {
	t           *testing.T
	cluster     *localcluster.Cluster
	client      *kgo.Client
	admin       *kadm.Client
	brokers     []int32
	controllers []int32
	// coordinators of groups and of transactions; there may be none.
	coordinators []int32
	// partitions are those of which schedules name leaders.
	partitions []partition
	disks      map[int32]*disk // empty where there can be none
	began      time.Time

	mu   sync.Mutex
	busy map[int32]bool // nodes that a fault has

	replacing sync.Mutex // held while a controller is replaced, and for ever after one that could not be
}

// possibleFaults are those that can be had here, with the reasons why others cannot.
func possibleFaults() (faults []schedule.Fault, missing []string) {
	faults = []schedule.Fault{
		schedule.Kill, schedule.KillBrokers, schedule.Pause, schedule.Roll, schedule.KillController, schedule.PauseController,
		schedule.KillControllers, schedule.ReplaceController, schedule.ShuffleLeaders, schedule.MoveReplicas, schedule.MoveDirectories,
	}
	if os.Geteuid() == 0 {
		faults = append(faults, schedule.Cut, schedule.Mute, schedule.Deafen, schedule.IsolateActive)
	} else {
		missing = append(missing, "no network is cut: it needs root")
	}
	if err := disksPossible(); err == nil {
		faults = append(faults, schedule.StallDisk, schedule.SlowDisk, schedule.FillDisk)
	} else {
		missing = append(missing, fmt.Sprint("no disk is broken: ", err))
	}
	if *clocks != "" {
		faults = append(faults, schedule.JumpClock, schedule.JumpControllerClock)
	}
	return faults, missing
}

// run goes through the steps, each at its time, and returns when all are undone.
func (b *breaker) run(steps []schedule.Step) {
	b.began = time.Now()
	b.t.Logf("the faults begin at %s", b.began.Format(time.TimeOnly))
	b.busy = map[int32]bool{}
	var running sync.WaitGroup
	for _, s := range steps {
		pause(time.Until(b.began.Add(s.At)))
		running.Go(func() {
			if err := b.do(s); err != nil {
				b.t.Errorf("%v: %v", s, err)
			}
		})
	}
	running.Wait()
}

// note says what happened when.
func (b *breaker) note(format string, args ...any) {
	b.t.Logf("%6.2fs %s", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// do does a step and undoes it.
func (b *breaker) do(s schedule.Step) error {
	ctx := b.t.Context()
	switch s.Fault {
	case schedule.Cut, schedule.Mute, schedule.Deafen:
		victim, err := b.victim(s)
		return errors.Join(err, b.cut(ctx, s, victim))
	case schedule.CutCoordinator:
		return b.cut(ctx, s, b.coordinators[s.Place])
	case schedule.IsolateActive:
		return b.isolate(ctx, s, b.active(ctx))
	case schedule.ReplaceController:
		return b.replaceController(ctx, s)
	case schedule.ShuffleLeaders:
		return b.shuffle(ctx, s)
	case schedule.MoveReplicas:
		return b.moveReplicas(ctx, s)
	case schedule.MoveDirectories:
		return b.moveDirectories(ctx, s)
	case schedule.Roll:
		return b.roll(ctx)
	case schedule.JumpClock:
		victim, err := b.victim(s)
		return errors.Join(err, b.jump(s, victim))
	case schedule.JumpControllerClock:
		return b.jump(s, b.active(ctx))
	case schedule.JumpCoordinatorClock:
		return b.jump(s, b.coordinators[s.Place])
	}
	nodes, release := b.claim(s)
	defer release()
	if len(nodes) == 0 {
		b.note("%s: nobody is left to have it", s.Fault)
		return nil
	}
	b.note("%s of %v", s.Fault, nodes)
	switch s.Fault {
	case schedule.Kill, schedule.KillBrokers, schedule.KillController, schedule.KillControllers, schedule.KillCoordinator, schedule.KillCoordinators:
		return b.between(s, func() error { return b.on(ctx, "kill", nodes) },
			func() error { return b.on(ctx, "start", nodes) })
	case schedule.Pause, schedule.PauseController, schedule.PauseCoordinator:
		return b.between(s, func() error { return b.on(ctx, "pause", nodes) },
			func() error { return b.on(ctx, "resume", nodes) })
	case schedule.RestartCoordinator:
		return b.between(s, func() error { return b.on(ctx, "stop", nodes) },
			func() error { return b.on(ctx, "start", nodes) })
	case schedule.StallDisk:
		return b.between(s, b.disks[nodes[0]].freeze, b.disks[nodes[0]].thaw)
	case schedule.SlowDisk:
		return b.disks[nodes[0]].stutter(s.For)
	case schedule.FillDisk:
		return b.fill(ctx, s, nodes[0])
	}
	return fmt.Errorf("nobody knows how to do %s", s.Fault)
}

// between lets the time of a fault pass.
func (b *breaker) between(s schedule.Step, begin, end func() error) error {
	if err := begin(); err != nil {
		return err
	}
	pause(s.For)
	b.note("%s ends", s.Fault)
	return end()
}

// on does a command to nodes, if there are any.
func (b *breaker) on(ctx context.Context, verb string, nodes []int32) error {
	if len(nodes) == 0 {
		return nil
	}
	return b.cluster.On(ctx, verb, nodes...)
}

// claim finds the nodes that have a fault, so that no other fault has them meanwhile.
func (b *breaker) claim(s schedule.Step) (nodes []int32, release func()) {
	ctx := b.t.Context()
	var wanted []int32
	most := 1
	switch s.Fault {
	case schedule.KillBrokers:
		wanted, most = b.brokers, len(b.brokers)
	case schedule.KillControllers:
		wanted, most = b.controllers, len(b.controllers)
	case schedule.KillCoordinators:
		wanted, most = b.coordinators, len(b.coordinators)
	case schedule.KillCoordinator, schedule.PauseCoordinator, schedule.RestartCoordinator:
		wanted = append([]int32{b.coordinators[s.Place]}, b.coordinators...)
	case schedule.KillController, schedule.PauseController:
		wanted = append([]int32{b.active(ctx)}, b.controllers...)
	default:
		victim, err := b.victim(s)
		if err != nil {
			b.note("%v", err)
		}
		wanted = append([]int32{victim}, b.brokers...)
	}
	return b.take(most, wanted...)
}

// take makes nodes that no fault has busy, in the order in which they are wanted.
func (b *breaker) take(most int, wanted ...int32) (nodes []int32, release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range wanted {
		if len(nodes) < most && !b.busy[id] {
			b.busy[id] = true
			nodes = append(nodes, id)
		}
	}
	return nodes, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, id := range nodes {
			delete(b.busy, id)
		}
	}
}

// victim is the broker that a step names.
func (b *breaker) victim(s schedule.Step) (int32, error) {
	id := b.brokers[s.Place]
	if s.LeaderOf < 0 {
		return id, nil
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), askTimeout)
	defer cancel()
	p := b.partitions[s.LeaderOf]
	topics, err := b.admin.ListTopicsWithInternal(ctx, p.topic)
	if err != nil {
		b.note("nobody tells who leads %v: %v", p, err)
		return id, nil
	}
	if leader := topics[p.topic].Partitions[p.id].Leader; slices.Contains(b.brokers, leader) {
		id = leader
	}
	return id, nil
}

// active is the active controller, or one of them where nobody knows.
func (b *breaker) active(ctx context.Context) int32 {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	leader, err := b.activeController(ctx)
	if err != nil || !slices.Contains(b.controllers, leader) {
		b.note("nobody tells which controller is active: %v", err)
		return b.controllers[0]
	}
	return leader
}

func (b *breaker) activeController(ctx context.Context) (int32, error) {
	quorum, err := b.quorum(ctx)
	return quorum.LeaderID, err
}

// quorum is what the controllers say of themselves; of no leader, -1, with an error.
func (b *breaker) quorum(ctx context.Context) (quorum kmsg.DescribeQuorumResponseTopicPartition, err error) {
	quorum.LeaderID = -1
	request := kmsg.NewPtrDescribeQuorumRequest()
	topic, partition := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	response, err := b.client.Request(ctx, request)
	if err != nil {
		return quorum, err
	}
	r := response.(*kmsg.DescribeQuorumResponse)
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		return quorum, err
	}
	p := r.Topics[0].Partitions[0]
	return p, kerr.ErrorForCode(p.ErrorCode)
}

// roll ends and starts the brokers that no other fault has, one after the other.
func (b *breaker) roll(ctx context.Context) error {
	for _, id := range b.brokers {
		nodes, release := b.take(1, id)
		err := errors.Join(b.on(ctx, "stop", nodes), b.on(ctx, "start", nodes))
		release()
		if err != nil {
			return err
		}
		b.note("%v were restarted", nodes)
	}
	return nil
}

// fill fills a broker's disk. The process may end of it; whether or not, it is started anew with room to write, as an operator would.
func (b *breaker) fill(ctx context.Context, s schedule.Step, id int32) error {
	clear, err := b.disks[id].fill()
	if err != nil {
		return err
	}
	pause(s.For)
	b.note("%s of %d ends", s.Fault, id)
	nodes, err := b.cluster.Of(ctx, "broker")
	err = errors.Join(clear(), err)
	if i := slices.IndexFunc(nodes, func(n localcluster.Node) bool { return n.ID == id }); i >= 0 && nodes[i].PID != 0 {
		err = errors.Join(err, b.on(ctx, "kill", []int32{id}))
	}
	return errors.Join(err, b.on(ctx, "start", []int32{id}))
}

// cut cuts a broker or a coordinator off from its peers.
func (b *breaker) cut(ctx context.Context, s schedule.Step, victim int32) error {
	var peers []int32
	if s.Peers != schedule.Controllers {
		peers = slices.DeleteFunc(slices.Clone(b.brokers), func(id int32) bool { return id == victim })
	}
	if s.Peers != schedule.Brokers {
		peers = append(peers, b.controllers...)
	}
	if s.Peers == schedule.Everyone {
		peers = append(peers, slices.DeleteFunc(slices.Clone(b.coordinators), func(id int32) bool { return id == victim })...)
	}
	b.note("%s of %d from %v", s.Fault, victim, peers)
	args := []string{text(victim), text(peers...)}
	switch s.Fault {
	case schedule.Deafen:
		args[0], args[1] = args[1], args[0]
		fallthrough
	case schedule.Mute:
		args = append(args, "--one-way")
	}
	return b.between(s, func() error { return b.partition(ctx, args...) }, func() error { return b.heal(ctx) })
}

// isolate cuts a controller off from all other nodes.
func (b *breaker) isolate(ctx context.Context, s schedule.Step, id int32) error {
	others := slices.DeleteFunc(slices.Concat(b.controllers, b.brokers, b.coordinators), func(other int32) bool { return other == id })
	b.note("%s: %d", s.Fault, id)
	return b.between(s, func() error { return b.partition(ctx, text(id), text(others...)) }, func() error { return b.heal(ctx) })
}

// jump sets the clock of a node's process, and sets it right again.
func (b *breaker) jump(s schedule.Step, id int32) error {
	b.note("%s of %d by %v", s.Fault, id, s.Jump)
	return b.between(s, func() error { return setClock(b.cluster.Dir, id, s.Jump) }, func() error { return setClock(b.cluster.Dir, id, 0) })
}

// setClock says by how much a node's clock is ahead, to the programs of ./clock/build. The file must be there as they start.
func setClock(dir string, id int32, ahead time.Duration) error {
	file, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(int(id)), "clock-offset"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(ahead.Seconds()))), 0)
	return errors.Join(err, file.Close())
}

func (b *breaker) partition(ctx context.Context, args ...string) error {
	_, err := b.cluster.Do(ctx, "partition", args...)
	return err
}

func (b *breaker) heal(ctx context.Context) error {
	_, err := b.cluster.Do(ctx, "heal")
	return err
}

func text(ids ...int32) string {
	var all []string
	for _, id := range ids {
		all = append(all, strconv.Itoa(int(id)))
	}
	return strings.Join(all, ",")
}

// shuffle has each partition in turn led by the replica after its leader: that one is made the preferred one, and elected. What
// the cluster cannot do meanwhile, for other faults, it refuses.
func (b *breaker) shuffle(ctx context.Context, s schedule.Step) error {
	ctx, cancel := context.WithTimeout(ctx, s.For)
	defer cancel()
	moved, refused := 0, map[string]bool{}
	for ctx.Err() == nil {
		for _, p := range b.partitions {
			if err := b.moveLeader(ctx, p); err != nil {
				refused[err.Error()] = true
			} else {
				moved++
			}
			pause(20 * time.Millisecond)
		}
	}
	b.note("%s: %d elections, refused for %v", s.Fault, moved, slices.Sorted(maps.Keys(refused)))
	return nil
}

func (b *breaker) moveLeader(ctx context.Context, p partition) error {
	topics, err := b.admin.ListTopicsWithInternal(ctx, p.topic)
	if err != nil {
		return err
	}
	detail := topics[p.topic].Partitions[p.id]
	if detail.Err != nil {
		return detail.Err
	}
	replicas := slices.Clone(detail.Replicas)
	slices.Sort(replicas)
	at := slices.Index(replicas, detail.Leader)
	replicas = append(slices.Clone(replicas[at+1:]), replicas[:at+1]...)
	if err := assign(ctx, b.admin, p, replicas); err != nil {
		return err
	}
	set := kadm.TopicsSet{}
	set.Add(p.topic, p.id)
	elected, err := b.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
	if err != nil {
		return err
	}
	return elected[p.topic][p.id].Err
}
