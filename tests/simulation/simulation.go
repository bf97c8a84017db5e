// Package simulation runs the controller's state machine and the replication of brokers together, in one goroutine and from one
// seed: a partition on four brokers, controllers that replace each other, a network that loses, delays, repeats and
// reorders messages and is cut, and disks that lose what was not flushed. Nothing depends on anything but the seed.
//
// The decisions are the services' own (clustertest, replicatest). What carries them out there, around the pure cores, is done
// anew here in its simplest form: reign is the controller's, process the broker's.
package simulation

import (
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// Broken is a rule that a run does without, to show that it is needed.
type Broken int

// The rules that may be broken. None is.
const (
	None Broken = iota
	// TruncationByWatermark has followers cut their logs at their own high watermark, as before KIP-101.
	TruncationByWatermark
	// WithoutPartitionEpoch has the controller take AlterPartition for one that is about the partition as it is now.
	WithoutPartitionEpoch
	// LeadersFromOutsideISR allows unclean elections.
	LeadersFromOutsideISR
)

// Result is what came of a run.
type Result struct {
	Violations   []string
	Lost         bool // a violation is that a leader lacks committed records
	Acknowledged int  // records
	Elections    int
	Offline      bool // in the end only an unclean election could give the partition a leader
}

const (
	brokers = 4
	steps   = 2000
	// healMs is how long everything may take to be well once nothing fails any more.
	healMs = 5000
)

type world struct {
	network
	truth
	random *rand.Rand
	ids    *rand.Rand // what the controllers draw
	broken Broken
	static configkeys.Values
	story  io.Writer
	nowMs  int64
	calm   bool // nothing fails
	// leftOut are kinds of faults that this run does without; rough is how many of 1000 steps are faults, one of slow
	// messages is late, one of lazy times a disk writes what it might, and one of tardy times a broker fetches or follows the
	// metadata when it might.
	leftOut                  [7]bool
	rough, slow, lazy, tardy int
	elr                      bool // eligible leader replicas are in force
	lost                     bool
	// offline says that only an unclean election could help in the end.
	offline bool

	images    []*metadata.Image // committed, as the log of the controllers has them
	acting    *reign            // nil while there is none
	deposed   *reign            // does not know that it is
	terms     int64
	elections int

	brokers   []*broker
	lastValue int
	lastFetch int
}

// Run is one run. The same seed gives the same. What happens goes to story, unless that is nil.
func Run(seed uint64, broken Broken, story io.Writer) (result Result) {
	w := newWorld(seed, broken, story)
	defer func() {
		if r := recover(); r != nil {
			w.violated("panic: %v", r)
		}
		result = Result{Violations: w.violations, Lost: w.lost, Acknowledged: w.acknowledged, Elections: w.elections, Offline: w.offline}
	}()
	for range steps {
		if w.step(); len(w.violations) > 0 {
			return
		}
	}
	w.heal()
	return
}

func newWorld(seed uint64, broken Broken, story io.Writer) *world {
	w := &world{
		network: network{cut: map[link]bool{}}, truth: truth{appenders: map[int32]appender{}},
		random: rand.New(rand.NewPCG(seed, 0)), ids: newIDs(seed), broken: broken, static: controllerConfig(broken), story: story,
		nowMs: 1000, images: []*metadata.Image{metadata.Empty()},
	}
	w.elr = w.random.IntN(2) == 0
	w.rough, w.slow, w.lazy, w.tardy = 2<<w.random.IntN(6), 2+w.random.IntN(30), 1+w.random.IntN(8), 1+w.random.IntN(6)
	for i := range w.leftOut {
		w.leftOut[i] = w.random.IntN(3) == 0
	}
	for id := range int32(brokers) {
		b := &broker{id: id + 1, previous: noEpoch}
		w.brokers = append(w.brokers, b)
		w.start(b)
	}
	w.calm = true
	w.begin()
	for range 20 {
		w.round()
	}
	w.acting.create(w.elr)
	for range 5 {
		w.round()
	}
	w.calm = false
	return w
}

func (w *world) committed() *metadata.Image { return w.images[len(w.images)-1] }

func (w *world) broker(id int32) *broker { return w.brokers[id-1] }

// step is something that happens.
func (w *world) step() {
	w.nowMs += w.random.Int64N(3)
	b := w.brokers[w.random.IntN(brokers)]
	switch k := w.random.IntN(1000); {
	case w.random.IntN(1000) < w.rough:
		w.fault(b)
	case k < 500:
		w.deliver()
	case k < 545:
		w.stepController()
	case k < 580:
		w.recover(b)
	case b.pausedMs <= w.nowMs:
		w.stepBroker(b)
	}
}

func (w *world) stepBroker(b *broker) {
	switch k := w.random.IntN(100); {
	case k < 25:
		if w.random.IntN(w.tardy) == 0 {
			w.fetch(b)
		}
	case k < 45:
		for n := w.random.IntN(w.tardy); n <= w.random.IntN(1+len(w.images)-b.seen); n++ {
			w.follow(b)
		}
	case k < 75:
		w.produce(b)
	case k < 85:
		w.keepInTouch(b)
	case k < 90:
		w.checkISR(b)
	case k < 97:
		w.wishFor(b)
	default:
		if w.random.IntN(w.lazy) == 0 {
			b.disk.flush()
			b.disk.checkpoint = b.disk.hw
		}
	}
}

func (w *world) stepController() {
	if w.acting == nil {
		if w.random.IntN(3) == 0 {
			w.begin()
		}
		return
	}
	w.acting.look()
	for range w.random.IntN(4) {
		w.commitNext()
	}
}

// fault is something that goes wrong. Half of what goes wrong with a broker does with the leader.
func (w *world) fault(b *broker) {
	if p := partitionOf(w.committed()); p != nil && p.HasLeader() && w.random.IntN(2) == 0 {
		b = w.broker(p.Leader)
	}
	kind := w.random.IntN(len(w.leftOut))
	if w.leftOut[kind] {
		return
	}
	switch kind {
	case 0:
		w.crash(b)
		if w.random.IntN(2) == 0 {
			w.absent(b)
		}
		if w.random.IntN(2) == 0 {
			w.start(b)
		}
	case 1:
		w.drain(b)
	case 2:
		w.cutOff(b.id)
	case 3:
		b.pausedMs = w.nowMs + w.random.Int64N(2*sessionTimeoutMs)
	case 4:
		w.depose()
	case 5:
		w.absent(b)
	case 6:
		w.administer()
	}
}

// recover is something that is well again.
func (w *world) recover(b *broker) {
	switch w.random.IntN(4) {
	case 0, 1:
		w.start(b)
	case 2:
		w.mend()
	case 3:
		w.deposed = nil
	}
}

// round has everyone do what is to be done, and every message arrive.
func (w *world) round() {
	w.nowMs += 10
	if w.acting == nil {
		w.begin()
	}
	w.acting.look()
	w.commitAll()
	for _, b := range w.brokers {
		w.start(b)
		for b.seen < len(w.images) {
			w.follow(b)
		}
		w.keepInTouch(b)
		w.checkISR(b)
		w.wishFor(b)
		w.fetch(b)
	}
	for n := 4 * len(w.flying); n > 0 && len(w.flying) > 0; n-- {
		w.deliver()
	}
	w.commitAll()
}

// heal ends all faults, and waits for everything to be well.
func (w *world) heal() {
	w.calm, w.deposed = true, nil
	clear(w.cut)
	w.flying = nil
	for until := w.nowMs + healMs; w.nowMs < until; {
		if w.round(); len(w.violations) > 0 {
			return
		}
		if w.converged() == "" {
			return
		}
	}
	w.violated("nothing fails any more, and %s", w.converged())
}

// tell adds to the story.
func (w *world) tell(format string, args ...any) {
	if w.story != nil {
		fmt.Fprintf(w.story, "%d ms: "+format+"\n", append([]any{w.nowMs}, args...)...)
	}
}
