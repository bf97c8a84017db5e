// Package configs is the config topic of a group of Connect workers: its records in Apache Kafka's format, and the state that they make.
//
// The topic has one partition and is compacted; the leader of the group is its only writer, but for target states. Configurations of tasks wait until a
// commit record says how many there are, so that all workers switch from one set to the next at the same offset. As compaction may have
// taken some of a set away, a commit whose set is not complete marks the connector as inconsistent: it has to make its tasks'
// configurations anew.
package configs

import (
	"maps"
	"slices"

	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// Config is a configuration of a connector or task: values by key. It is not changed once it is in a state.
type Config = map[string]string

// Target is what a connector is meant to do.
type Target int8

// The target states.
const (
	Started Target = iota
	Paused
	// Stopped connectors have no tasks (KIP-875).
	Stopped
)

var targetNames = [...]string{"STARTED", "PAUSED", "STOPPED"}

// String is the name that the topic has.
func (t Target) String() string { return targetNames[t] }

// SessionKey is what workers sign their requests to each other with (KIP-507).
type SessionKey struct {
	Key []byte
	// Algorithm is a Java name such as HmacSHA256.
	Algorithm string
	// CreatedMs is in ms since 1970.
	CreatedMs int64
}

// Restart asks for a connector and its tasks to be started again (KIP-745).
type Restart struct {
	Connector    string
	IncludeTasks bool
	// OnlyFailed leaves alone what runs.
	OnlyFailed bool
}

// State is what the records up to an offset have said. It is not safe for concurrent use; Clone is for readers beside its owner.
type State struct {
	next       int64
	connectors map[string]*connector
	targets    map[string]Target
	sessionKey *SessionKey
	// waiting are configurations of tasks without a commit, by connector, which need not be there.
	waiting map[string]map[int32]Config
	// generations and fencing outlive a connector: what ran for a deleted one may still run when another gets its name.
	generations map[string]int
	fencing     map[string]fencing
}

// connector is a connector that has a configuration, and is replaced rather than changed.
type connector struct {
	config Config
	// tasks are those of the last commit that was complete, nil before.
	tasks []Config
	// committed says that there was a commit; applied is the configuration at the last complete one.
	committed bool
	applied   Config
	// inconsistent says that the last commit was not complete.
	inconsistent bool
}

type fencing struct {
	// tasks is how many tasks the last fencing was for, −1 before the first.
	tasks int
	// pending says that there was a commit since.
	pending bool
}

// New is the state before the first record.
func New() *State {
	return &State{
		connectors: map[string]*connector{}, targets: map[string]Target{}, waiting: map[string]map[int32]Config{},
		generations: map[string]int{}, fencing: map[string]fencing{},
	}
}

// Clone is a copy that later records do not change.
func (s *State) Clone() *State {
	c := *s
	c.connectors, c.targets = maps.Clone(s.connectors), maps.Clone(s.targets)
	c.waiting = map[string]map[int32]Config{}
	for name, tasks := range s.waiting {
		c.waiting[name] = maps.Clone(tasks)
	}
	c.generations, c.fencing = maps.Clone(s.generations), maps.Clone(s.fencing)
	return &c
}

// Offset is the offset after the last record that was applied, which workers compare in their group; 0 before any.
func (s *State) Offset() int64 { return s.next }

// Connectors are the names of all connectors, sorted.
func (s *State) Connectors() []string { return slices.Sorted(maps.Keys(s.connectors)) }

// Connector is the configuration of a connector.
func (s *State) Connector(name string) (Config, bool) {
	c, ok := s.connectors[name]
	if !ok {
		return nil, false
	}
	return c.config, true
}

// Target is what a connector is meant to do: Started where no record says otherwise.
func (s *State) Target(name string) Target { return s.targets[name] }

// TaskConfigs are the configurations of a connector's tasks in order; none while the connector is inconsistent.
func (s *State) TaskConfigs(name string) []Config {
	c := s.connectors[name]
	if c == nil || c.inconsistent {
		return nil
	}
	return c.tasks
}

// TaskConfig is the configuration of a task.
func (s *State) TaskConfig(task work.Item) (Config, bool) {
	tasks := s.TaskConfigs(task.Connector)
	if task.Task < 0 || int(task.Task) >= len(tasks) {
		return nil, false
	}
	return tasks[task.Task], true
}

// Work is all that there is to run, in order: connectors, stopped ones included as someone has to answer for them, and their tasks.
func (s *State) Work() []work.Item {
	var items []work.Item
	for _, name := range s.Connectors() {
		items = append(items, work.Connector(name))
		items = append(items, work.Tasks(name, len(s.TaskConfigs(name)))...)
	}
	return items
}

// Inconsistent says whether the connector has to make its tasks' configurations anew.
func (s *State) Inconsistent(name string) bool {
	c := s.connectors[name]
	return c != nil && c.inconsistent
}

// Generation counts the complete sets of tasks that a connector has had: 0 for the first, −1 before. A task that was started for another
// generation must not go on after a fencing.
func (s *State) Generation(name string) int {
	if g, ok := s.generations[name]; ok {
		return g
	}
	return -1
}

// TasksDiffer says whether a connector's new task configurations have to be written: they are others than those committed, or the
// connector's own configuration is another than when those were committed.
func (s *State) TasksDiffer(name string, tasks []Config) bool {
	c := s.connectors[name]
	if c == nil || c.inconsistent || !c.committed || len(tasks) != len(c.tasks) {
		return true
	}
	return !maps.Equal(c.config, c.applied) || !slices.EqualFunc(tasks, c.tasks, maps.Equal[Config, Config])
}

// Fencing says whether a source connector's tasks wait for a round of fencing (KIP-618), and how many earlier tasks' producers it has to fence:
// 0 when it is enough to write a new fencing record.
func (s *State) Fencing(name string) (pending bool, tasks int) {
	f, ok := s.fencing[name]
	if !ok || !f.pending {
		return false, 0
	}
	// Where one task follows one task it has the transactional id of its predecessor, which its own start fences.
	if f.tasks <= 0 || f.tasks == 1 && len(s.TaskConfigs(name)) == 1 {
		return true, 0
	}
	return true, f.tasks
}

// SessionKey is the newest key, nil when there is none.
func (s *State) SessionKey() *SessionKey { return s.sessionKey }
