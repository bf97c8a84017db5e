package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/jvmtest"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// topic follows records as a worker does.
type topic struct {
	t     *testing.T
	state *State
	next  int64
}

func newTopic(t *testing.T) *topic { return &topic{t: t, state: New()} }

func (p *topic) write(records ...Record) (last Change) {
	p.t.Helper()
	for _, r := range records {
		c, err := p.state.Apply(p.next, r.Key, r.Value)
		if err != nil {
			p.t.Fatal(err)
		}
		p.next++
		last = c
	}
	return last
}

// TestRecordedTopic follows what a JVM worker wrote, and writes the same.
func TestRecordedTopic(t *testing.T) {
	records := jvmtest.Records(t, jvmtest.ConfigTopic)
	s := New()
	kinds := map[Kind]int{}
	for _, r := range records {
		var value []byte
		if r.Value != nil {
			value = []byte(*r.Value)
		}
		c, err := s.Apply(r.Offset, r.Key, value)
		if err != nil {
			t.Errorf("%s: %v", r.Key, err)
		}
		kinds[c.Kind]++
		compare(t, ours(t, s, c, r), r)
	}
	if got := s.Connectors(); !slices.Equal(got, []string{"broken", "held", "out-1", "src"}) {
		t.Errorf("connectors: %v", got)
	}
	want := "[broken broken-0 held out-1 out-1-0 out-1-1 src src-0]"
	if got := fmt.Sprint(s.Work()); got != want {
		t.Errorf("work is %s", got)
	}
	for name, want := range map[string]Target{"broken": Started, "held": Paused, "out-1": Started, "src": Started, "off": Started} {
		if got := s.Target(name); got != want {
			t.Errorf("%s is %v", name, got)
		}
	}
	if pending, n := s.Fencing("src"); pending {
		t.Errorf("src waits for a fencing of %d", n)
	}
	if got := s.Generation("src"); got != 2 {
		t.Errorf("src has had sets of tasks up to %d", got)
	}
	if s.SessionKey() == nil || s.Offset() != records[len(records)-1].Offset+1 {
		t.Errorf("session key %v, offset %d", s.SessionKey(), s.Offset())
	}
	for _, k := range []Kind{Nothing, ConnectorSet, ConnectorRemoved, TasksSet, TargetSet, Fenced, SessionKeySet, RestartAsked, LevelSet} {
		if kinds[k] == 0 {
			t.Errorf("no record is of kind %d", k)
		}
	}
}

// ours is how we write what a recorded record says. Records of tasks are written with their commit, and are taken from there.
func ours(t *testing.T, s *State, c Change, r jvmtest.Record) []Record {
	t.Helper()
	config, _ := s.Connector(c.Connector)
	switch c.Kind {
	case ConnectorSet:
		return []Record{ConnectorRecord(c.Connector, config)}
	case ConnectorRemoved:
		return RemovalRecords(c.Connector)[:1]
	case TasksSet:
		records := TaskRecords(c.Connector, s.TaskConfigs(c.Connector))
		return records[len(records)-1:]
	case TargetSet:
		return []Record{TargetRecord(c.Connector, s.Target(c.Connector))}
	case Fenced:
		var v fencingValue
		if err := json.Unmarshal([]byte(*r.Value), &v); err != nil {
			t.Fatal(err)
		}
		return []Record{FencingRecord(c.Connector, int(*v.TaskCount))}
	case SessionKeySet:
		return []Record{SessionKeyRecord(*s.SessionKey())}
	case RestartAsked:
		return []Record{RestartRecord(c.Restart)}
	case LevelSet:
		return []Record{LevelRecord(c.Logger, c.Level)}
	}
	if task, ok := work.ParseTask(strings.TrimPrefix(r.Key, "task-")); ok && strings.HasPrefix(r.Key, "task-") {
		tasks := make([]Config, task.Task+1)
		tasks[task.Task] = s.waiting[task.Connector][task.Task]
		return TaskRecords(task.Connector, tasks)[task.Task : task.Task+1]
	}
	return RemovalRecords(strings.TrimPrefix(r.Key, "target-state-"))[1:]
}

func compare(t *testing.T, got []Record, want jvmtest.Record) {
	t.Helper()
	if len(got) != 1 || got[0].Key != want.Key || (got[0].Value == nil) != (want.Value == nil) {
		t.Errorf("%s: ours is %v", want.Key, got)
		return
	}
	if want.Value == nil {
		return
	}
	var a, b any
	if err := errors.Join(json.Unmarshal(got[0].Value, &a), json.Unmarshal([]byte(*want.Value), &b)); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%s: %s is ours, %s is theirs", want.Key, got[0].Value, *want.Value)
	}
}

func TestTasksWaitForTheirCommit(t *testing.T) {
	p := newTopic(t)
	one, two := Config{"n": "1"}, Config{"n": "2"}
	p.write(ConnectorRecord("c-1", Config{"name": "c-1"}))
	tasks := TaskRecords("c-1", []Config{one, two})
	p.write(tasks[:2]...)
	if got := p.state.TaskConfigs("c-1"); got != nil {
		t.Errorf("before the commit: %v", got)
	}
	if c := p.write(tasks[2]); c.Kind != TasksSet || c.Connector != "c-1" {
		t.Errorf("the commit changes %+v", c)
	}
	if got, ok := p.state.TaskConfig(work.Item{Connector: "c-1", Task: 1}); !ok || got["n"] != "2" {
		t.Errorf("task 1: %v %v", got, ok)
	}
	for _, none := range []work.Item{{Connector: "c-1", Task: 2}, work.Connector("c-1"), {Connector: "x", Task: 0}} {
		if _, ok := p.state.TaskConfig(none); ok {
			t.Errorf("%v has a configuration", none)
		}
	}
	before := p.state.Clone()
	p.write(TaskRecords("c-1", []Config{two})...)
	if got := p.state.TaskConfigs("c-1"); len(got) != 1 || got[0]["n"] != "2" {
		t.Errorf("after the second commit: %v", got)
	}
	if got := before.TaskConfigs("c-1"); len(got) != 2 || before.Generation("c-1") != 0 || p.state.Generation("c-1") != 1 {
		t.Errorf("the copy has %v of generation %d", got, before.Generation("c-1"))
	}
}

func TestCompactedSetIsInconsistent(t *testing.T) {
	p := newTopic(t)
	p.write(ConnectorRecord("c", Config{}))
	// The second set was being written when the worker died; compaction left its first task in place of the first set's.
	set := TaskRecords("c", []Config{{"n": "1"}, {"n": "2"}})
	p.write(set[1], set[2], Record{"task-c-0", []byte(`{"properties":{"n":"new"}}`)})
	if !p.state.Inconsistent("c") || p.state.TaskConfigs("c") != nil || !p.state.TasksDiffer("c", nil) {
		t.Errorf("inconsistent: %v, tasks %v", p.state.Inconsistent("c"), p.state.TaskConfigs("c"))
	}
	if got := fmt.Sprint(p.state.Work()); got != "[c]" {
		t.Errorf("work: %s", got)
	}
	p.write(set...)
	if p.state.Inconsistent("c") || len(p.state.TaskConfigs("c")) != 2 {
		t.Error("a whole set does not help")
	}
	// Tasks beyond the number of the commit are left from a larger set.
	p = newTopic(t)
	p.write(ConnectorRecord("c", Config{}), Record{"task-c-5", []byte(`{"properties":{}}`)})
	p.write(TaskRecords("c", []Config{{"n": "1"}})...)
	if p.state.Inconsistent("c") || len(p.state.TaskConfigs("c")) != 1 {
		t.Error("a task too many makes it inconsistent")
	}
}

func TestRemoval(t *testing.T) {
	p := newTopic(t)
	p.write(TargetRecord("c", Stopped), ConnectorRecord("c", Config{"a": "b"}))
	p.write(TaskRecords("c", []Config{{}, {}})...)
	p.write(FencingRecord("c", 2))
	removal := RemovalRecords("c")
	if c := p.write(removal[0]); c.Kind != ConnectorRemoved {
		t.Errorf("removal changes %+v", c)
	}
	p.write(removal[1])
	if _, ok := p.state.Connector("c"); ok || p.state.Target("c") != Started || len(p.state.Work()) != 0 {
		t.Error("it is still there")
	}
	if c := p.write(removal[0]); c.Kind != Nothing {
		t.Errorf("a second removal changes %+v", c)
	}
	// A commit whose connector is gone, as compaction may leave it, must not bring it back.
	p.write(TaskRecords("c", []Config{{}})...)
	if len(p.state.Connectors()) != 0 {
		t.Error("a commit brought it back")
	}
	// What ran for it may still run: a new connector of its name fences that.
	p.write(ConnectorRecord("c", Config{}))
	p.write(TaskRecords("c", []Config{{}})...)
	if pending, n := p.state.Fencing("c"); !pending || n != 2 {
		t.Errorf("fencing: %v of %d", pending, n)
	}
	if got := p.state.Generation("c"); got != 1 {
		t.Errorf("generation %d", got)
	}
}

func TestFencing(t *testing.T) {
	p := newTopic(t)
	check := func(when string, wantPending bool, want int) {
		t.Helper()
		if pending, n := p.state.Fencing("c"); pending != wantPending || n != want {
			t.Errorf("%s: pending %v, of %d tasks", when, pending, n)
		}
	}
	check("unknown", false, 0)
	p.write(ConnectorRecord("c", Config{}))
	check("without tasks", false, 0)
	p.write(TaskRecords("c", []Config{{}})...)
	check("first tasks", true, 0)
	p.write(FencingRecord("c", 1))
	check("recorded", false, 0)
	p.write(TaskRecords("c", []Config{{"x": "y"}})...)
	check("one after one", true, 0)
	p.write(TaskRecords("c", []Config{{}, {}, {}})...)
	check("three after one", true, 1)
	p.write(FencingRecord("c", 3))
	p.write(TaskRecords("c", []Config{{}})...)
	check("one after three", true, 3)
	p.write(FencingRecord("c", 0))
	p.write(TaskRecords("c", []Config{{}})...)
	check("one after none", true, 0)
}

func TestTasksDiffer(t *testing.T) {
	p := newTopic(t)
	tasks := []Config{{"n": "1"}, {"n": "2"}}
	p.write(ConnectorRecord("c", Config{"a": "b"}))
	if !p.state.TasksDiffer("c", nil) {
		t.Error("no tasks, but no commit either")
	}
	p.write(TaskRecords("c", tasks)...)
	if p.state.TasksDiffer("c", []Config{{"n": "1"}, {"n": "2"}}) {
		t.Error("the same tasks differ")
	}
	for _, others := range [][]Config{nil, tasks[:1], {{"n": "1"}, {"n": "3"}}, {{"n": "1"}, {"n": "2", "m": ""}}} {
		if !p.state.TasksDiffer("c", others) {
			t.Errorf("%v is the same", others)
		}
	}
	p.write(ConnectorRecord("c", Config{"a": "c"}))
	if !p.state.TasksDiffer("c", tasks) {
		t.Error("tasks of another configuration of the connector are the same")
	}
}

func TestTargets(t *testing.T) {
	p := newTopic(t)
	for value, want := range map[string]Target{
		`{"state":"PAUSED"}`: Paused, `{"state":"STARTED"}`: Started, `{"state":"PAUSED","state.v2":"STOPPED"}`: Stopped, `{"state":"PAUSED","state.v2":"STARTED"}`: Started,
	} {
		p.write(Record{"target-state-c", []byte(value)})
		if got := p.state.Target("c"); got != want {
			t.Errorf("%s is %v", value, got)
		}
	}
}

func TestPassedOver(t *testing.T) {
	s := New()
	for i, r := range []Record{
		{"", nil}, {"nothing", []byte("{}")}, {"connector-c", []byte("x")}, {"connector-c", []byte("[]")}, {"connector-c", []byte("null")}, {"connector-c", []byte("{}")},
		{"connector-c", []byte(`{"properties":{"a":{"b":1}}}`)}, {"target-state-c", []byte(`{"state":"SLEEPING"}`)}, {"target-state-c", []byte(`{"state":1}`)},
		{"task-c", []byte(`{"properties":{}}`)}, {"task-c-0", nil}, {"task-c-0", []byte("7")}, {"commit-c", nil}, {"commit-c", []byte("{}")}, {"commit-c", []byte(`{"tasks":-1}`)},
		{"commit-c", []byte(`{"tasks":2000000000}`)}, {"tasks-fencing-c", []byte("{}")}, {"tasks-fencing-c", nil}, {"restart-connector-c", nil}, {"restart-connector-c", []byte("[]")},
		{"session-key", nil}, {"session-key", []byte(`{"key":"!","algorithm":"HmacSHA256","creation-timestamp":1}`)}, {"session-key", []byte(`{}`)}, {"logger-cluster-l", []byte("{}")},
	} {
		c, err := s.Apply(int64(i), r.Key, r.Value)
		if !errors.Is(err, ErrPassedOver) || c != (Change{}) || s.Offset() != int64(i+1) {
			t.Errorf("%s %s: %+v, %v, offset %d", r.Key, r.Value, c, err, s.Offset())
		}
	}
	if len(s.Work()) != 0 || s.SessionKey() != nil {
		t.Errorf("something is left: %v", s.Work())
	}
	// Values that are no text are taken as their text.
	if _, err := s.Apply(100, "connector-c", []byte(`{"properties":{"n":1.50,"b":true,"z":null,"s":"x"}}`)); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Connector("c"); !reflect.DeepEqual(got, Config{"n": "1.50", "b": "true", "s": "x"}) {
		t.Errorf("got %v", got)
	}
}

func FuzzApply(f *testing.F) {
	f.Add("connector-c", []byte(`{"properties":{"a":"b"}}`), "commit-c", []byte(`{"tasks":1}`))
	f.Add("task-c-0", []byte(`{"properties":{}}`), "target-state-c", []byte(`{"state":"PAUSED","state.v2":"STOPPED"}`))
	f.Fuzz(func(t *testing.T, key1 string, value1 []byte, key2 string, value2 []byte) {
		s := New()
		for i, r := range []Record{ConnectorRecord("c", Config{}), {key1, value1}, {key2, value2}} {
			if _, err := s.Apply(int64(i), r.Key, r.Value); err != nil && !errors.Is(err, ErrPassedOver) {
				t.Error(err)
			}
		}
		for _, item := range s.Work() {
			if _, ok := s.TaskConfig(item); ok != item.IsTask() {
				t.Errorf("%v has a task's configuration: %v", item, ok)
			}
		}
	})
}
