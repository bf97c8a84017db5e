package configs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// Kind is what a record changes.
type Kind int8

// The kinds of changes.
const (
	// Nothing is of interest to others: configurations of tasks without a commit, a record that changes nothing.
	Nothing Kind = iota
	// ConnectorSet and ConnectorRemoved are about Change.Connector, as are TasksSet and TargetSet.
	ConnectorSet
	ConnectorRemoved
	// TasksSet is a commit, be it complete or not.
	TasksSet
	TargetSet
	// Fenced says that earlier producers of the connector's tasks can write no more.
	Fenced
	SessionKeySet
	// RestartAsked and LevelSet are requests rather than state: a worker passes over those that were written before it started.
	RestartAsked
	LevelSet
)

// Change is what a record has changed.
type Change struct {
	Kind      Kind
	Connector string
	Restart   Restart
	// Logger and Level are of LevelSet.
	Logger, Level string
}

// ErrPassedOver is wrapped by what Apply says of a record that it does not understand. The state goes on without it, as Kafka's workers do.
var ErrPassedOver = errors.New("record of the config topic is passed over")

// Apply follows the record at an offset. A nil value is a tombstone.
func (s *State) Apply(offset int64, key string, value []byte) (Change, error) {
	s.next = offset + 1
	c, err := s.apply(key, value)
	if err != nil {
		return Change{}, fmt.Errorf("%w: offset %d, key %q: %w", ErrPassedOver, offset, key, err)
	}
	return c, nil
}

func (s *State) apply(key string, value []byte) (Change, error) {
	for _, k := range []struct {
		prefix string
		apply  func(name string, value []byte) (Change, error)
	}{
		{connectorPrefix, s.applyConnector}, {targetPrefix, s.applyTarget}, {taskPrefix, s.applyTask}, {commitPrefix, s.applyCommit},
		{fencingPrefix, s.applyFencing}, {restartPrefix, applyRestart}, {loggerPrefix, applyLevel},
	} {
		if name, ok := strings.CutPrefix(key, k.prefix); ok {
			return k.apply(name, value)
		}
	}
	if key == sessionKey {
		return s.applySessionKey(value)
	}
	return Change{}, errors.New("unknown kind of key")
}

func (s *State) applyConnector(name string, value []byte) (Change, error) {
	if value == nil {
		_, had := s.connectors[name]
		delete(s.connectors, name)
		delete(s.waiting, name)
		if !had {
			return Change{}, nil
		}
		return Change{Kind: ConnectorRemoved, Connector: name}, nil
	}
	config, err := parseProperties(value)
	if err != nil {
		return Change{}, err
	}
	s.change(name).config = config
	return Change{Kind: ConnectorSet, Connector: name}, nil
}

// change puts a copy of a connector, or a new one, into the state and returns it to be filled.
func (s *State) change(name string) *connector {
	next := connector{}
	if before := s.connectors[name]; before != nil {
		next = *before
	}
	s.connectors[name] = &next
	return &next
}

func (s *State) applyTarget(name string, value []byte) (Change, error) {
	if value == nil {
		delete(s.targets, name)
		return Change{}, nil
	}
	var v targetValue
	if err := unmarshal(value, &v); err != nil {
		return Change{}, err
	}
	text := v.State
	if v.StateV2 != "" {
		text = v.StateV2
	}
	i := slices.Index(targetNames[:], text)
	if i < 0 {
		return Change{}, fmt.Errorf("target state %q", text)
	}
	s.targets[name] = Target(i)
	return Change{Kind: TargetSet, Connector: name}, nil
}

func (s *State) applyTask(name string, value []byte) (Change, error) {
	task, ok := work.ParseTask(name)
	if !ok {
		return Change{}, errors.New("key names no task")
	}
	if value == nil {
		return Change{}, errors.New("a task's configuration cannot be removed")
	}
	config, err := parseProperties(value)
	if err != nil {
		return Change{}, err
	}
	if s.waiting[task.Connector] == nil {
		s.waiting[task.Connector] = map[int32]Config{}
	}
	s.waiting[task.Connector][task.Task] = config
	return Change{}, nil
}

// applyCommit makes the configurations that waited those of the connector's tasks. There may be more of them than the commit counts,
// where compaction left those of tasks that the connector no longer has.
func (s *State) applyCommit(name string, value []byte) (Change, error) {
	var v commitValue
	if err := unmarshal(value, &v); err != nil {
		return Change{}, err
	}
	if v.Tasks == nil || *v.Tasks < 0 || *v.Tasks > maxTasks {
		return Change{}, errors.New("no number of tasks")
	}
	waiting := s.waiting[name]
	delete(s.waiting, name)
	if s.connectors[name] == nil {
		// The connector was deleted before, and compaction has taken both its configuration and its tombstone.
		return Change{}, nil
	}
	next := s.change(name)
	tasks := make([]Config, 0, min(int(*v.Tasks), len(waiting)))
	for i := range *v.Tasks {
		config, ok := waiting[i]
		if !ok {
			break
		}
		tasks = append(tasks, config)
	}
	next.inconsistent = len(tasks) < int(*v.Tasks)
	if !next.inconsistent {
		next.tasks, next.applied, next.committed = tasks, next.config, true
		s.generations[name] = s.Generation(name) + 1
	}
	f, ok := s.fencing[name]
	if !ok {
		f.tasks = -1
	}
	f.pending = true
	s.fencing[name] = f
	return Change{Kind: TasksSet, Connector: name}, nil
}

func (s *State) applyFencing(name string, value []byte) (Change, error) {
	var v fencingValue
	if err := unmarshal(value, &v); err != nil {
		return Change{}, err
	}
	if v.TaskCount == nil || *v.TaskCount < 0 {
		return Change{}, errors.New("no number of tasks")
	}
	s.fencing[name] = fencing{tasks: int(*v.TaskCount)}
	return Change{Kind: Fenced, Connector: name}, nil
}

func (s *State) applySessionKey(value []byte) (Change, error) {
	var v sessionKeyValue
	if err := unmarshal(value, &v); err != nil {
		return Change{}, err
	}
	key, err := base64.StdEncoding.DecodeString(v.Key)
	if err != nil {
		return Change{}, err
	}
	if len(key) == 0 || v.Algorithm == "" {
		return Change{}, errors.New("no key, or no algorithm")
	}
	s.sessionKey = &SessionKey{Key: key, Algorithm: v.Algorithm, CreatedMs: v.CreationTimestamp}
	return Change{Kind: SessionKeySet}, nil
}

func applyRestart(name string, value []byte) (Change, error) {
	var v restartValue
	if err := unmarshal(value, &v); err != nil {
		return Change{}, err
	}
	return Change{Kind: RestartAsked, Connector: name, Restart: Restart{name, v.IncludeTasks, v.OnlyFailed}}, nil
}

func applyLevel(logger string, value []byte) (Change, error) {
	var v levelValue
	if err := unmarshal(value, &v); err != nil {
		return Change{}, err
	}
	if v.Level == "" {
		return Change{}, errors.New("no level")
	}
	return Change{Kind: LevelSet, Logger: logger, Level: v.Level}, nil
}
