// Package schedule draws from a seed what is done to a cluster, and when: the same seed always gives the same faults.
package schedule

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Fault is something done to a cluster that is undone at the end of its time.
type Fault string

// The faults.
const (
	Kill                 Fault = "kill"                  // a broker's process ends by SIGKILL, and is started again
	KillBrokers          Fault = "kill-brokers"          // all at once
	Pause                Fault = "pause"                 // SIGSTOP, SIGCONT
	Roll                 Fault = "roll"                  // all brokers end in good order and start again, one after the other
	KillController       Fault = "kill-controller"       // the active one
	PauseController      Fault = "pause-controller"      // the active one
	KillControllers      Fault = "kill-controllers"      // all at once
	Cut                  Fault = "cut"                   // a broker's network, both ways
	Mute                 Fault = "mute"                  // what a broker sends is dropped
	Deafen               Fault = "deafen"                // what is sent to a broker is dropped
	IsolateActive        Fault = "isolate-active"        // the active controller, from the others and the brokers
	StallDisk            Fault = "stall-disk"            // whatever writes to a broker's disk waits
	SlowDisk             Fault = "slow-disk"             // it waits most of the time
	FillDisk             Fault = "fill-disk"             // no byte is left; afterwards the broker is started anew
	ReplaceController    Fault = "replace-controller"    // one that is not active loses its disk, and is taken out of the quorum and put back
	ShuffleLeaders       Fault = "shuffle-leaders"       // each partition goes through several leaders
	MoveReplicas         Fault = "move-replicas"         // partitions lose replicas and get them back, by reassignment
	MoveDirectories      Fault = "move-directories"      // brokers move replicas between their log directories
	JumpClock            Fault = "jump-clock"            // a broker's clock is set forward or back, by up to hours
	JumpControllerClock  Fault = "jump-controller-clock" // the active one's
	JumpCoordinatorClock Fault = "jump-coordinator-clock"
	KillCoordinator      Fault = "kill-coordinator"  // of groups or of transactions
	KillCoordinators     Fault = "kill-coordinators" // all at once
	PauseCoordinator     Fault = "pause-coordinator"
	RestartCoordinator   Fault = "restart-coordinator" // it ends in good order, and starts again
	CutCoordinator       Fault = "cut-coordinator"     // a coordinator's network, both ways
)

// Peers are whom a broker's network is cut off from.
type Peers string

// The peers.
const (
	Brokers     Peers = "brokers"
	Controllers Peers = "controllers"
	Everyone    Peers = "everyone" // but clients
)

// Step is a fault at a time.
type Step struct {
	At  time.Duration // after the beginning
	For time.Duration
	Fault
	// LeaderOf is the partition whose leader is the broker it happens to; -1 leaves that to Place.
	LeaderOf int32
	Place    int           // of the broker among all, or of the coordinator
	Peers    Peers         // of a cut
	Jump     time.Duration // of a clock
}

func (s Step) String() string {
	text := fmt.Sprintf("%6.2fs %-22s for %5.2fs", s.At.Seconds(), s.Fault, s.For.Seconds())
	if s.onBroker() {
		if s.LeaderOf >= 0 {
			text += fmt.Sprintf("  leader of partition %d", s.LeaderOf)
		} else {
			text += fmt.Sprintf("  broker %d", s.Place+1)
		}
	}
	if s.onCoordinator() {
		text += fmt.Sprintf("  coordinator %d", s.Place+1)
	}
	if s.Peers != "" {
		text += fmt.Sprintf("  from %s", s.Peers)
	}
	if s.Jump != 0 {
		text += fmt.Sprintf("  by %v", s.Jump)
	}
	return text
}

func (s Step) onBroker() bool {
	switch s.Fault {
	case Kill, Pause, Cut, Mute, Deafen, StallDisk, SlowDisk, FillDisk, JumpClock:
		return true
	}
	return false
}

func (s Step) onCoordinator() bool {
	switch s.Fault {
	case KillCoordinator, PauseCoordinator, RestartCoordinator, CutCoordinator, JumpCoordinatorClock:
		return true
	}
	return false
}

// Plan is what faults are drawn from.
type Plan struct {
	Faults       []Fault // those that are possible here
	Length       time.Duration
	Brokers      int
	Coordinators int
	Partitions   int32
}

// lane has faults of which one follows the other. Those of different lanes overlap.
type lane struct {
	faults  []weighted
	pauseMs int // between two, at the most
}

var lanes = []lane{
	{[]weighted{{Kill, 6, 5000}, {Pause, 6, 9000}, {Roll, 2, 100}, {KillBrokers, 1, 1000}, {KillController, 2, 4000}, {PauseController, 2, 6000}, {KillControllers, 1, 3000}, {ReplaceController, 2, 3000}}, 4000},
	{[]weighted{{Cut, 3, 9000}, {Mute, 2, 9000}, {Deafen, 2, 9000}, {IsolateActive, 1, 6000}, {CutCoordinator, 3, 9000}}, 6000},
	{[]weighted{{StallDisk, 2, 6000}, {SlowDisk, 2, 8000}, {FillDisk, 1, 4000}}, 8000},
	{[]weighted{{ShuffleLeaders, 1, 3000}}, 12000},
	{[]weighted{{MoveReplicas, 1, 8000}, {MoveDirectories, 1, 8000}}, 8000},
	{[]weighted{{JumpClock, 2, 5000}, {JumpControllerClock, 1, 5000}, {JumpCoordinatorClock, 2, 5000}}, 8000},
	{[]weighted{{KillCoordinator, 6, 4000}, {PauseCoordinator, 6, 9000}, {RestartCoordinator, 3, 100}, {KillCoordinators, 1, 2000}}, 3000},
}

// weighted is a fault with how often it is drawn compared with others of its lane, and how long it lasts at the most.
type weighted struct {
	Fault
	weight int
	maxMs  int
}

const minMs = 200

// Draw makes a schedule. Each seed leaves out some kinds of faults, so that those that are left meet one another more often.
func Draw(seed uint64, plan Plan) []Step {
	random := rand.New(rand.NewPCG(seed, 0))
	chosen := slices.DeleteFunc(slices.Clone(plan.Faults), func(Fault) bool { return random.IntN(3) == 0 })
	if len(chosen) == 0 && len(plan.Faults) > 0 {
		chosen = []Fault{plan.Faults[random.IntN(len(plan.Faults))]}
	}
	var steps []Step
	for _, l := range lanes {
		possible := slices.DeleteFunc(slices.Clone(l.faults), func(w weighted) bool { return !slices.Contains(chosen, w.Fault) })
		if len(possible) == 0 {
			continue
		}
		for at := ms(random, l.pauseMs); ; {
			s := drawStep(random, plan, possible)
			s.At = at
			if s.At+s.For > plan.Length {
				break
			}
			steps = append(steps, s)
			at += s.For + ms(random, l.pauseMs)
		}
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return steps
}

func ms(random *rand.Rand, most int) time.Duration {
	return time.Duration(minMs+random.IntN(most)) * time.Millisecond
}

func drawStep(random *rand.Rand, plan Plan, possible []weighted) Step {
	total := 0
	for _, w := range possible {
		total += w.weight
	}
	drawn := random.IntN(total)
	i := 0
	for ; drawn >= possible[i].weight; i++ {
		drawn -= possible[i].weight
	}
	s := Step{Fault: possible[i].Fault, For: ms(random, possible[i].maxMs), LeaderOf: -1}
	if s.onBroker() {
		s.Place = random.IntN(plan.Brokers)
		if random.IntN(2) == 0 {
			s.LeaderOf = random.Int32N(plan.Partitions)
		}
	}
	if s.onCoordinator() {
		s.Place = random.IntN(plan.Coordinators)
	}
	switch s.Fault {
	case Cut, Mute, Deafen, CutCoordinator:
		s.Peers = []Peers{Brokers, Controllers, Everyone}[random.IntN(3)]
	case JumpClock, JumpControllerClock, JumpCoordinatorClock:
		s.Jump = (time.Duration(random.Int64N(int64(4*time.Hour))) - 2*time.Hour).Round(time.Second)
	}
	return s
}
