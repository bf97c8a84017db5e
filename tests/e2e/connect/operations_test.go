//go:build e2e && linux

package connect

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestOperations has a source and a sink at work paused, stopped, restarted, moved, divided anew, deleted and made again, and their worker killed: no number
// of any task is left out, and none comes again but after the kill and where its offset was set back.
func TestOperations(t *testing.T) {
	s := startSingle(t)
	s.create("numbers")
	source := config{"connector.class": "witness-source", "tasks.max": "3", folderKey: s.folder, "topic": "numbers"}
	s.put("numbers", source)
	s.put("numbers-out", config{"connector.class": "witness-sink", "tasks.max": "1", folderKey: s.folder, "topics": "numbers",
		"consumer.override.session.timeout.ms": "6000"})
	s.await("numbers", "RUNNING", 3)
	s.await("numbers-out", "RUNNING", 1)

	for _, name := range []string{"numbers", "numbers-out"} {
		s.grows()
		before := s.starts()
		s.do(http.MethodPut, "/connectors/"+name+"/pause")
		s.await(name, "PAUSED", map[string]int{"numbers": 3, "numbers-out": 1}[name])
		s.do(http.MethodPut, "/connectors/"+name+"/resume")
		s.await(name, "RUNNING", map[string]int{"numbers": 3, "numbers-out": 1}[name])
		if after := s.starts(); after != before {
			t.Errorf("%s was paused, and %d tasks have started", name, after-before)
		}
		s.do(http.MethodPut, "/connectors/"+name+"/stop")
		s.await(name, "STOPPED", 0)
		s.do(http.MethodPut, "/connectors/"+name+"/resume")
		s.eventually(name+" goes on", func(ctx context.Context) error {
			return s.is(ctx, name, "RUNNING", map[string]int{"numbers": 3, "numbers-out": 1}[name])
		})
		s.grows()
		s.do(http.MethodPost, "/connectors/"+name+"/restart?includeTasks=true")
		s.grows()
	}
	for _, tasks := range []int{6, 2, 3} {
		source["tasks.max"] = strconv.Itoa(tasks)
		s.put("numbers", source)
		s.await("numbers", "RUNNING", tasks)
		s.grows()
	}

	s.do(http.MethodPut, "/connectors/numbers/stop")
	s.await("numbers", "STOPPED", 0)
	s.setOffset(10_000)
	s.do(http.MethodPut, "/connectors/numbers/resume")
	s.await("numbers", "RUNNING", 3)
	s.grows()

	s.server.Kill()
	s.start()
	s.await("numbers", "RUNNING", 3)
	s.grows()
	s.do(http.MethodDelete, "/connectors/numbers")
	s.put("numbers", source)
	s.await("numbers", "RUNNING", 3)
	s.grows()
	s.do(http.MethodPut, "/connectors/numbers/stop")
	s.await("numbers", "STOPPED", 0)
	s.checkNumbers()
}

// grows waits for twenty records more in the topic.
func (s *single) grows() {
	s.Helper()
	s.records("numbers", len(s.records("numbers", 0))+20)
}

// starts is how often tasks have started.
func (s *single) starts() (n int) {
	s.Helper()
	all, err := testimonies(s.folder)
	if err != nil {
		s.Fatal(err)
	}
	for _, is := range all {
		n += len(is.starts)
	}
	return n
}

// setOffset has the first task go on elsewhere.
func (s *single) setOffset(next int) {
	s.Helper()
	s.eventually("set an offset", func(ctx context.Context) error {
		return s.ask(ctx, http.MethodPatch, "/connectors/numbers/offsets", map[string]any{"offsets": []any{map[string]any{"partition": map[string]string{"task": "0"}, "offset": map[string]int{"next": next}}}}, nil)
	})
}

// checkNumbers follows the numbers of each task.
func (s *single) checkNumbers() {
	s.Helper()
	last, back := map[string]int{}, map[string]int{}
	all := s.records("numbers", 100)
	for _, r := range all {
		task, text, _ := strings.Cut(string(r.Value), ":")
		n, err := strconv.Atoi(text)
		if err != nil {
			s.Fatalf("record %d is %q", r.Offset, r.Value)
		}
		was, known := last[task]
		switch {
		case !known && n == 0, known && n == was+1, task == "0" && n == 10_000 && was < 10_000:
		case known && n <= was:
			back[task]++
		default:
			s.Errorf("at %d: task %s goes on with %d after %d", r.Offset, task, n, was)
		}
		last[task] = n
	}
	if last["0"] <= 10_000 {
		s.Errorf("the first task ended with %d", last["0"])
	}
	for task, times := range back {
		if times > 1 {
			s.Errorf("task %s went back %d times, and was killed once", task, times)
		}
	}
	put := map[string]int{}
	s.eventually("the sink has all", func(context.Context) error {
		values, err := valuesPut(s.folder, "numbers-out-0")
		if err != nil {
			return err
		}
		clear(put)
		for _, v := range values {
			put[v]++
		}
		for _, r := range all {
			if put[string(r.Value)] == 0 {
				return fmt.Errorf("%q was not put", r.Value)
			}
		}
		return nil
	})
	s.Logf("%d records, %d tasks went back after the kill", len(all), len(back))
}

// valuesPut are the texts that a sink has noted.
func valuesPut(folder, task string) ([]string, error) {
	lines, err := notesOf(folder, task)
	if err != nil {
		return nil, err
	}
	var values []string
	for _, line := range lines {
		if _, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " put "); ok {
			values = append(values, text)
		}
	}
	return values, nil
}
