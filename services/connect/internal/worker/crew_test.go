package worker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// TestALife takes a connector through what users do with it.
func TestALife(t *testing.T) {
	f := newFixture(t)
	r := f.standalone()
	ctx := t.Context()
	r.create(f.config("a", 2))
	r.is("a=RUNNING", "a-0=RUNNING", "a-1=RUNNING")
	if s := r.taskStatus("a", "1"); s.WorkerID != r.id || s.Version != "7" || s.Trace != "" {
		t.Errorf("%+v", s)
	}
	if err := r.herder.Pause(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	r.is("a=PAUSED", "a-0=PAUSED", "a-1=PAUSED")
	if err := r.herder.Resume(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	r.is("a=RUNNING", "a-0=RUNNING", "a-1=RUNNING")
	if got := f.count("start:a-0"); got != 1 {
		t.Errorf("a pause has started the task %d times", got)
	}
	if err := r.herder.RestartTask(ctx, work.Item{Connector: "a", Task: 1}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the restart", func() bool { return f.count("start:a-1") == 2 })
	if _, err := r.herder.RestartAll(ctx, configs.Restart{Connector: "a", IncludeTasks: true}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the restart of all", func() bool { return f.count("start:a-0") == 2 && f.count("start:a-1") == 3 })
	r.is("a=RUNNING", "a-0=RUNNING", "a-1=RUNNING")
	if err := r.herder.Stop(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	r.is("a=STOPPED", "a-0=", "a-1=")
	if err := r.herder.Resume(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	r.is("a=RUNNING", "a-0=RUNNING", "a-1=RUNNING")
	if err := r.herder.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	r.is("a=", "a-0=", "a-1=")
	r.create(f.config("a", 1))
	r.is("a=RUNNING", "a-0=RUNNING")
	r.stop()
	for _, task := range []string{"a-0", "a-1"} {
		if starts, stops := f.count("start:"+task), f.count("stop:"+task); starts != stops {
			t.Errorf("%s has started %d times and stopped %d times", task, starts, stops)
		}
	}
}

// TestFewerTasks has what is known of tasks go that there are no longer.
func TestFewerTasks(t *testing.T) {
	f := newFixture(t)
	r := f.standalone()
	r.create(f.config("a", 3))
	r.is("a-0=RUNNING", "a-1=RUNNING", "a-2=RUNNING")
	r.create(f.config("a", 1))
	r.is("a-0=RUNNING", "a-1=", "a-2=")
	r.eventually("one task in metrics", func() bool { return r.gauged("kafka_connect_connect_worker_metrics_task_count") == 1 })
}

// gauged is the value of a metric without labels.
func (r *running) gauged(name string) float64 {
	r.t.Helper()
	families, err := r.gauge.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	r.t.Fatalf("no metric %s", name)
	return 0
}

// TestFailures has tasks fail until somebody starts them again, or the worker does.
func TestFailures(t *testing.T) {
	for _, automatic := range []bool{false, true} {
		f := newFixture(t)
		f.write("fail", "out of luck")
		var properties []string
		if automatic {
			properties = []string{"task.restart.backoff.ms", "10", "task.restart.backoff.max.ms", "50"}
		}
		r := f.standalone(properties...)
		r.create(f.config("a", 1))
		r.is("a=RUNNING")
		r.eventually("the failure", func() bool { return strings.Contains(r.taskStatus("a", "0").Trace, "out of luck") })
		if automatic {
			r.eventually("further attempts", func() bool { return f.count("fail:a-0") > 2 })
			f.remove("fail")
			r.is("a-0=RUNNING")
			continue
		}
		if err := r.herder.Pause(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		r.is("a=PAUSED", "a-0=FAILED")
		if err := r.herder.Resume(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		r.is("a=RUNNING", "a-0=FAILED")
		f.remove("fail")
		if _, err := r.herder.RestartAll(t.Context(), configs.Restart{Connector: "a", IncludeTasks: true, OnlyFailed: true}); err != nil {
			t.Fatal(err)
		}
		r.is("a-0=RUNNING")
		if got := f.count("fail:a-0"); got != 1 {
			t.Errorf("it was started %d times in vain", got)
		}
	}
}

// TestARestartGoesByWhatRunsHere has the worker know what has failed before it reads so in the status topic, where nothing is written yet.
func TestARestartGoesByWhatRunsHere(t *testing.T) {
	w := newLeader(t, &scripted{})
	for _, item := range []work.Item{work.Connector("a"), {Connector: "a", Task: 0}, {Connector: "a", Task: 1}, {Connector: "b", Task: 0}} {
		w.crew.running[item] = &instance{item: item}
	}
	w.crew.running[work.Item{Connector: "a", Task: 1}].err = errors.New("out of luck")
	w.crew.running[work.Item{Connector: "b", Task: 0}].err = errors.New("out of luck")
	for want, r := range map[string]configs.Restart{
		"[a]":         {Connector: "a"},
		"[]":          {Connector: "a", OnlyFailed: true},
		"[a a-0 a-1]": {Connector: "a", IncludeTasks: true},
		"[a-1]":       {Connector: "a", IncludeTasks: true, OnlyFailed: true},
	} {
		if got := fmt.Sprint(w.crew.concerned(r)); got != want {
			t.Errorf("%+v restarts %s, want %s", r, got, want)
		}
	}
}

// TestAConnectorThatRefuses has what a connector finds wrong be its state, until it is configured anew.
func TestAConnectorThatRefuses(t *testing.T) {
	f := newFixture(t)
	f.write("refuse", "no such table")
	r := f.standalone()
	r.create(f.config("a", 1))
	r.is("a=FAILED", "a-0=")
	s, err := r.herder.Status("a")
	if err != nil || !strings.Contains(s.Connector.Trace, "no such table") {
		t.Errorf("%+v, %v", s.Connector, err)
	}
	f.remove("refuse")
	r.create(f.config("a", 1, "table", "orders"))
	r.is("a=RUNNING", "a-0=RUNNING")
}

// TestAConnectorThatGivesUpWatching has one fail that returns from Watch, although without an error.
func TestAConnectorThatGivesUpWatching(t *testing.T) {
	f := newFixture(t)
	r := f.standalone()
	c := f.config("a", 1)
	c["connector.class"] = "inattentive"
	r.create(c)
	r.is("a=FAILED")
	if s, err := r.herder.Status("a"); err != nil || !strings.Contains(s.Connector.Trace, "Watch has returned") {
		t.Errorf("%+v, %v", s.Connector, err)
	}
}

// TestTasksThatHang has them be ended, all at the same time, while others end in good order.
func TestTasksThatHang(t *testing.T) {
	f := newFixture(t)
	r := f.standalone("task.shutdown.graceful.timeout.ms", "3000")
	r.create(f.config("hangs", 3, "hang", "stop"))
	r.create(f.config("other", 3))
	r.create(f.config("asks", 1, "hang", "taskconfigs"))
	r.is("hangs-0=RUNNING", "hangs-1=RUNNING", "hangs-2=RUNNING", "other-0=RUNNING", "other-1=RUNNING", "other-2=RUNNING", "asks=RUNNING")
	r.create(f.config("last", 1)) // for a generation in which the others did not start: what they say at their end is newer then
	r.is("last-0=RUNNING")
	begun := time.Now()
	r.stop()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, task := range []string{"other-0", "other-1", "other-2"} {
		if f.count("stop:"+task) != 1 {
			t.Errorf("%s has not stopped", task)
		}
	}
	// What was cut off says nothing more of itself.
	for item, state := range map[string]string{"hangs-0": "RUNNING", "other-0": "UNASSIGNED", "other-2": "UNASSIGNED", "hangs": "UNASSIGNED", "asks": "UNASSIGNED"} {
		if got := r.state(item); got != state {
			t.Errorf("%s is %s, not %s", item, got, state)
		}
	}
}

// TestSecretsStayWhereTheyAre has what a provider knows be in no record of the config topic.
func TestSecretsStayWhereTheyAre(t *testing.T) {
	f := newFixture(t)
	f.write("secrets.properties", "password=hunter2\n")
	r := f.standalone("config.providers", "file", "config.providers.file.class", "org.apache.kafka.common.config.provider.FileConfigProvider")
	r.create(f.config("a", 1, "secret", "${file:"+f.folder+"/secrets.properties:password}"))
	r.is("a-0=RUNNING")
	for _, c := range append(r.herder.Configs().TaskConfigs("a"), f.config("a", 1)) {
		for key, value := range c {
			if strings.Contains(value, "hunter2") {
				t.Errorf("%s=%s", key, value)
			}
		}
	}
	if tasks := r.herder.Configs().TaskConfigs("a"); len(tasks) != 1 || !strings.HasPrefix(tasks[0]["secret"], "${file:") {
		t.Errorf("%v", tasks)
	}
}

func TestMergedRestarts(t *testing.T) {
	a := configs.Restart{Connector: "a", OnlyFailed: true}
	b := configs.Restart{Connector: "a", IncludeTasks: true, OnlyFailed: true}
	c := configs.Restart{Connector: "a"}
	for _, test := range []struct {
		all  []configs.Restart
		want configs.Restart
	}{
		{[]configs.Restart{a}, a},
		{[]configs.Restart{b, a}, b},
		{[]configs.Restart{a, c}, c},
		{[]configs.Restart{c, b}, configs.Restart{Connector: "a", IncludeTasks: true}},
	} {
		for range 2 {
			var merged *configs.Restart
			for _, r := range test.all {
				merged = merge(merged, r)
			}
			if *merged != test.want {
				t.Errorf("%v: %v, want %v", test.all, *merged, test.want)
			}
			slices.Reverse(test.all)
		}
	}
}
