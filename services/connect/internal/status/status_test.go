package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/jvmtest"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

func write(t *testing.T, table *Table, r Record) {
	t.Helper()
	if err := table.Apply(r.Key, r.Value); err != nil {
		t.Fatal(err)
	}
}

// TestRecordedTopic follows what two JVM workers wrote, and writes the same.
func TestRecordedTopic(t *testing.T) {
	table := New()
	for _, r := range jvmtest.Records(t, jvmtest.StatusTopic) {
		var value []byte
		if r.Value != nil {
			value = []byte(*r.Value)
		}
		write(t, table, Record{r.Key, value})
		compare(t, rewrite(t, r), r)
	}
	if got := fmt.Sprint(table.Items()); got != "[broken broken-0 held out-1 out-1-0 out-1-1 src src-0]" {
		t.Errorf("items: %s", got)
	}
	if got := fmt.Sprint(table.Tasks("out-1")); got != "[out-1-0 out-1-1]" {
		t.Errorf("tasks: %s", got)
	}
	failed, _ := table.Get(work.Item{Connector: "broken", Task: 0})
	if want := (Status{Failed, "org.apache.kafka.connect.errors.ConnectException", failed.WorkerID, failed.Generation, "4.3.1"}); failed != want {
		t.Errorf("the task of broken is %+v", failed)
	}
	if held, _ := table.Get(work.Connector("held")); held.State != Paused || !strings.HasPrefix(held.WorkerID, "127.0.0.1:3808") {
		t.Errorf("held is %+v", held)
	}
	topics := table.Topics("out-1")
	if len(topics) != 1 || topics[0].Name != "lines" || topics[0].DiscoveredMs == 0 {
		t.Errorf("topics: %v", topics)
	}
}

// rewrite is how we write what a record says.
func rewrite(t *testing.T, r jvmtest.Record) Record {
	t.Helper()
	one := New()
	if r.Value != nil {
		write(t, one, Record{r.Key, []byte(*r.Value)})
	}
	for _, item := range one.Items() {
		s, _ := one.Get(item)
		return StatusRecord(item, s)
	}
	for connector := range one.topics {
		return TopicRecord(one.Topics(connector)[0])
	}
	if rest, ok := strings.CutPrefix(r.Key, topicPrefix); ok {
		topic, connector, _ := strings.Cut(rest, topicSeparator)
		return TopicRemovalRecord(connector, topic)
	}
	if task, ok := work.ParseTask(strings.TrimPrefix(r.Key, taskPrefix)); ok && strings.HasPrefix(r.Key, taskPrefix) {
		return RemovalRecord(task)
	}
	return RemovalRecord(work.Connector(strings.TrimPrefix(r.Key, connectorPrefix)))
}

func compare(t *testing.T, got Record, want jvmtest.Record) {
	t.Helper()
	if got.Key != want.Key || (got.Value == nil) != (want.Value == nil) {
		t.Errorf("%s: ours is %s %s", want.Key, got.Key, got.Value)
		return
	}
	if want.Value == nil {
		return
	}
	var a, b any
	if err := errors.Join(json.Unmarshal(got.Value, &a), json.Unmarshal([]byte(*want.Value), &b)); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%s: %s is ours, %s is theirs", want.Key, got.Value, *want.Value)
	}
}

func TestUnassignedDoesNotReplaceANewerRunning(t *testing.T) {
	task := work.Item{Connector: "c", Task: 0}
	for _, test := range []struct {
		before, after Status
		want          State
	}{
		{Status{State: Running, Generation: 5, WorkerID: "b"}, Status{State: Unassigned, Generation: 4, WorkerID: "a"}, Running},
		{Status{State: Running, Generation: 5, WorkerID: "b"}, Status{State: Unassigned, Generation: 5, WorkerID: "a"}, Running},
		{Status{State: Running, Generation: 5, WorkerID: "b"}, Status{State: Unassigned, Generation: 6, WorkerID: "b"}, Unassigned},
		{Status{State: Failed, Generation: 5, WorkerID: "b"}, Status{State: Unassigned, Generation: 4, WorkerID: "a"}, Unassigned},
		{Status{State: Running, Generation: 5, WorkerID: "b"}, Status{State: Failed, Generation: 4, WorkerID: "a"}, Failed},
	} {
		table := New()
		write(t, table, StatusRecord(task, test.before))
		write(t, table, StatusRecord(task, test.after))
		if got, _ := table.Get(task); got.State != test.want {
			t.Errorf("%+v after %+v is %s", test.after, test.before, got.State)
		}
	}
}

func TestSafeWrites(t *testing.T) {
	c := work.Connector("c")
	table := New()
	late := Status{State: Failed, Generation: 3, WorkerID: "a"}
	if !table.MayWrite(c, late) {
		t.Error("the first write is not safe")
	}
	write(t, table, StatusRecord(c, Status{State: Running, Generation: 4, WorkerID: "b"}))
	for s, want := range map[Status]bool{
		late: false, {State: Failed, Generation: 4, WorkerID: "a"}: true, {State: Failed, Generation: 5, WorkerID: "a"}: true, {State: Failed, Generation: 3, WorkerID: "b"}: true,
	} {
		if got := table.MayWrite(c, s); got != want {
			t.Errorf("%+v may be written: %v", s, got)
		}
	}
	write(t, table, RemovalRecord(c))
	if !table.MayWrite(c, late) || len(table.Items()) != 0 {
		t.Error("after a removal nothing is safe")
	}
}

func TestTopics(t *testing.T) {
	table := New()
	write(t, table, TopicRecord(Topic{"b", "c-1", 2, 7}))
	write(t, table, TopicRecord(Topic{"a", "c-1", 0, 5}))
	write(t, table, TopicRecord(Topic{"a", "d", 0, 6}))
	if got := table.Topics("c-1"); !reflect.DeepEqual(got, []Topic{{"a", "c-1", 0, 5}, {"b", "c-1", 2, 7}}) {
		t.Errorf("topics: %v", got)
	}
	if got := table.Users(); !reflect.DeepEqual(got, []string{"c-1", "d"}) {
		t.Errorf("users: %v", got)
	}
	write(t, table, TopicRemovalRecord("c-1", "a"))
	write(t, table, TopicRemovalRecord("c-1", "b"))
	if got, other := table.Topics("c-1"), table.Topics("d"); got != nil || len(other) != 1 {
		t.Errorf("after the removal: %v, of d %v", got, other)
	}
}

func TestLongTraceIsCut(t *testing.T) {
	c := work.Connector("c")
	r := StatusRecord(c, Status{State: Failed, Trace: strings.Repeat("é", maxTraceBytes)})
	table := New()
	write(t, table, r)
	s, _ := table.Get(c)
	if len(s.Trace) > maxTraceBytes || len(s.Trace) < maxTraceBytes-4 || strings.Trim(s.Trace, "é") != "" {
		t.Errorf("the trace has %d bytes", len(s.Trace))
	}
}

func TestPassedOver(t *testing.T) {
	for key, value := range map[string]string{
		"": "{}", "other": "{}", "status-connector-c": "[]", "status-task-c": `{"state":"RUNNING"}`, "status-task-c-0": `{"state":"SLEEPING"}`, "status-topic-t": "{}",
		"status-topic-t:connector-c": "{}", "status-connector-d": "x",
	} {
		table := New()
		if err := table.Apply(key, []byte(value)); !errors.Is(err, ErrPassedOver) || len(table.Items()) != 0 {
			t.Errorf("%s %s: %v, %v", key, value, err, table.Items())
		}
	}
}

func FuzzApply(f *testing.F) {
	f.Add("status-task-c-0", []byte(`{"state":"RUNNING","trace":null,"worker_id":"a:1","generation":1,"version":null}`))
	f.Add("status-topic-t:connector-c", []byte(`{"topic":{"name":"t","connector":"c","task":0,"discoverTimestamp":1}}`))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		table := New()
		if table.Apply(key, value) != nil {
			return
		}
		for _, item := range table.Items() {
			s, _ := table.Get(item)
			again := New()
			write(t, again, StatusRecord(item, s))
			if got, _ := again.Get(item); len(s.Trace) <= maxTraceBytes && got != s {
				t.Errorf("%+v is read back as %+v", s, got)
			}
		}
	})
}
