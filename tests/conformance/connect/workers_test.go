//go:build conformance

package connect

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// atOnce has what a worker leaves behind go to others without a wait for it to come back.
const atOnce = "scheduled.rebalance.max.delay.ms=0"

const exactlyOnce = "exactly.once.source.support=enabled"

// TestKafkaWorkers has two workers of Apache Kafka share connectors on the broker under test, and one of them go on alone.
func TestKafkaWorkers(t *testing.T) {
	more(t, "AtLeastOnce", func(t *testing.T) { share(t, "kafka", jvm, jvm, atOnce) })
	t.Run("ExactlyOnce", func(t *testing.T) { share(t, "kafka-eos", jvm, jvm, atOnce, exactlyOnce) })
}

// TestCauceWorkers does the same with two workers of ours.
func TestCauceWorkers(t *testing.T) {
	t.Run("AtLeastOnce", func(t *testing.T) { share(t, "cauce", ours, ours, atOnce) })
	t.Run("ExactlyOnce", func(t *testing.T) { share(t, "cauce-eos", ours, ours, atOnce, exactlyOnce) })
}

// TestMixedGroup has a worker of Kafka's and one of ours share connectors in one group, each as the leader, which the other sends signed requests to.
func TestMixedGroup(t *testing.T) {
	t.Run("KafkaLeads", func(t *testing.T) { share(t, "mixed-kafka", jvm, ours, atOnce) })
	t.Run("CauceLeadsExactlyOnce", func(t *testing.T) { share(t, "mixed-cauce-eos", ours, jvm, atOnce, exactlyOnce) })
	more(t, "CauceLeads", func(t *testing.T) { share(t, "mixed-cauce", ours, jvm, atOnce) })
	more(t, "KafkaLeadsExactlyOnce", func(t *testing.T) { share(t, "mixed-kafka-eos", jvm, ours, atOnce, exactlyOnce) })
}

// more is a part that is run with -all only.
func more(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		if !*all {
			t.Skip("run with -all")
		}
		f(t)
	})
}

// share starts a worker, which leads, and another, has them share the work, answer for each other, and the second end: no line is lost, and none moved twice.
func share(t *testing.T, group string, leader, follower kind, set ...string) {
	first := start(t, leader, group, set...)
	second := start(t, follower, group, set...)
	a, b := newLines(t, group+"-a"), newLines(t, group+"-b")
	a.create(first)
	b.create(second)
	workers := []*worker{first, second}
	for _, l := range []*lines{a, b} {
		for _, w := range workers {
			l.running(w)
		}
		l.arrive(first)
	}
	first.await(t, "both workers have their share", func() (bool, string) {
		found := where(t, first, a, b)
		return len(found) == 2 && found["WORKER"] > 0, fmt.Sprint(found)
	})
	for _, w := range workers {
		reach(t, w, a)
	}
	a.write(200)
	b.write(200)
	for _, l := range []*lines{a, b} {
		l.arrive(first)
	}
	second.stop(t)
	first.await(t, "the worker that is left runs all", func() (bool, string) {
		found := where(t, first, a, b)
		return len(found) == 1 && found["WORKER"] > 0, fmt.Sprint(found)
	})
	for _, l := range []*lines{a, b} {
		l.running(first)
		l.write(100)
		l.arrive(first)
	}
}

// reach asks one worker for what any of them may have to do: it has the other do it.
func reach(t *testing.T, w *worker, l *lines) {
	t.Helper()
	for _, name := range []string{l.source(), l.sink()} {
		w.do(t, http.StatusNoContent, "POST", "/connectors/"+name+"/restart", "")
		w.do(t, http.StatusNoContent, "POST", "/connectors/"+name+"/tasks/0/restart", "")
	}
	l.running(w)
	w.do(t, http.StatusAccepted, "POST", "/connectors/"+l.source()+"/restart?includeTasks=true", "")
	l.running(w)
	w.do(t, http.StatusAccepted, "PUT", "/connectors/"+l.source()+"/pause", "")
	if err := w.states(t, l.source(), "PAUSED", 1); err != nil {
		t.Fatal(err)
	}
	w.do(t, http.StatusAccepted, "PUT", "/connectors/"+l.source()+"/resume", "")
	w.do(t, http.StatusOK, "PATCH", "/connectors/"+l.sink()+"/config", `{"errors.log.enable":"true"}`)
	w.do(t, http.StatusOK, "PATCH", "/connectors/"+l.sink()+"/config", `{"errors.log.enable":null}`)
	l.running(w)
}

// TestInterchange has a worker of ours, one of Kafka's, and one of ours again go on one after the other by the same topics.
func TestInterchange(t *testing.T) {
	t.Run("AtLeastOnce", func(t *testing.T) { interchange(t, "turns", atOnce) })
	t.Run("ExactlyOnce", func(t *testing.T) { interchange(t, "turns-eos", atOnce, exactlyOnce) })
}

func interchange(t *testing.T, group string, set ...string) {
	l, idle := newLines(t, group), newLines(t, group+"-idle")
	var before []string
	for i, k := range []kind{ours, jvm, ours} {
		w := start(t, k, group, set...)
		if i == 0 {
			l.create(w)
			idle.create(w)
			idle.running(w)
			idle.arrive(w)
			w.do(t, http.StatusAccepted, "PUT", "/connectors/"+idle.source()+"/pause", "")
			w.do(t, http.StatusNoContent, "PUT", "/connectors/"+idle.sink()+"/stop", "")
		}
		l.running(w)
		for name, want := range map[string]struct {
			state string
			tasks int
		}{idle.source(): {"PAUSED", 1}, idle.sink(): {"STOPPED", 0}} {
			if err := w.states(t, name, want.state, want.tasks); err != nil {
				t.Fatal(err)
			}
		}
		l.arrive(w)
		l.stored(w)
		now := described(t, w, l, idle)
		if before != nil && !slices.Equal(before, now) {
			t.Errorf("a worker of %v has\n%s\nwhere there was\n%s", k, strings.Join(now, "\n"), strings.Join(before, "\n"))
		}
		before = now
		w.stop(t)
		l.write(50)
	}
}

// described is what a worker says of connectors that does not depend on the worker.
func described(t *testing.T, w *worker, all ...*lines) []string {
	t.Helper()
	var texts []string
	for _, l := range all {
		for _, name := range []string{l.source(), l.sink()} {
			for _, path := range []string{"/config", "/tasks", "/topics"} {
				texts = append(texts, fmt.Sprint(w.do(t, http.StatusOK, "GET", "/connectors/"+name+path, "").body))
			}
		}
	}
	return append(texts, fmt.Sprint(w.do(t, http.StatusOK, "GET", "/connectors/"+all[1].source()+"/offsets", "").body))
}
