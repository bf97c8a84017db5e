package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// connectorOf starts a host over a folder with the test program, and finds a connector.
func connectorOf(t *testing.T, class string, c Config) (*Host, *Connector) {
	t.Helper()
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	h, _ := start(t, folder, c)
	found, err := h.Connector(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	return h, found
}

// startSource starts a task and returns its process id.
func startSource(t *testing.T, c *Connector, mood string) (*remote.SourceTask, int) {
	t.Helper()
	task, err := c.StartSource(t.Context(), remote.Task{Connector: "my-moods", Config: map[string]string{"mood": mood}})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := task.Poll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return task, int(batch.Records[0].Value.V.(int64))
}

// TestATaskWorksOnOneProcessor unless the host's environment says otherwise.
func TestATaskWorksOnOneProcessor(t *testing.T) {
	for said, want := range map[string]int64{"": 1, "3": 3} {
		t.Setenv("GOMAXPROCS", said)
		_, c := connectorOf(t, "moody-source", Config{})
		task, _ := startSource(t, c, "wide")
		batch, err := task.Poll(t.Context())
		if err != nil || batch.Records[0].Value.V != want {
			t.Errorf("with GOMAXPROCS %q: %v, %v", said, batch.Records, err)
		}
		if err := task.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestConnectorsAreFoundByAnyOfTheirNames(t *testing.T) {
	h, _ := connectorOf(t, "moody-sink", Config{})
	for class, want := range map[string]string{
		"moody-source": "moody-source", "org.example.MoodySourceConnector": "moody-source", "MoodySourceConnector": "moody-source", "MoodySource": "moody-source",
		"moody-sink": "moody-sink", "org.example.MoodySink": "moody-sink", "MoodySink": "moody-sink",
	} {
		if c, err := h.Connector(t.Context(), class); err != nil || c.Name != want || c.Source != (want == "moody-source") || c.Version != "2" {
			t.Errorf("%s: %+v, %v", class, c, err)
		}
	}
	for _, class := range []string{"faulty", "Moody", "example.MoodySink", "sink", ""} {
		if c, err := h.Connector(t.Context(), class); !errors.Is(err, ErrUnknownConnector) || !strings.Contains(err.Error(), "there are moody-source, moody-sink") {
			t.Errorf("%s: %+v, %v", class, c, err)
		}
	}
}

// TestAnUnknownConnectorNamesWhatDoesNotStart since that may be the program that offers it.
func TestAnUnknownConnectorNamesWhatDoesNotStart(t *testing.T) {
	folder := t.TempDir()
	installScript(t, folder, "broken", "#!/bin/sh\necho no such option >&2; exit 4\n")
	h, _ := start(t, folder, Config{})
	_, err := h.Connector(t.Context(), "mine")
	if !errors.Is(err, ErrUnknownConnector) || !strings.Contains(err.Error(), "offers it; broken cannot be started") || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("Connector = %v", err)
	}
}

func TestCallsOfAConnector(t *testing.T) {
	h, c := connectorOf(t, "moody-source", Config{})
	d, err := c.Define(t.Context())
	if err != nil || len(d.Keys) != 1 || !d.Watches {
		t.Errorf("%+v, %v", d, err)
	}
	if v, err := c.Validate(t.Context(), nil); err != nil || len(v.Values) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if configs, err := c.TaskConfigs(t.Context(), map[string]string{"mood": "good"}, 1); err != nil || len(configs) != 1 {
		t.Errorf("%v, %v", configs, err)
	}
	if handled, err := c.AlterSourceOffsets(t.Context(), nil, nil); err != nil || handled {
		t.Errorf("%t, %v", handled, err)
	}
	var f *remote.Fault
	if _, err := c.TaskConfigs(t.Context(), map[string]string{"mood": "panic"}, 1); !errors.As(err, &f) || !strings.Contains(err.Error(), "source moody-source: panic: index out of range") {
		t.Errorf("panic: %v", err)
	}
	if _, err := c.TaskConfigs(t.Context(), map[string]string{"mood": "exit"}, 1); err == nil || !strings.Contains(err.Error(), "faults crashed: exit status 3; its last words: out of luck") {
		t.Errorf("exit: %v", err)
	}
	good(t, h)
}

// TestACrashIsOneCalls has a process die of one call while another is under way: the other is made again, and the one that it died of takes it along no more.
func TestACrashIsOneCalls(t *testing.T) {
	h, c := connectorOf(t, "moody-source", Config{CallTimeout: time.Minute})
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	other := make(chan error, 1)
	go func() {
		configs, err := c.TaskConfigs(context.WithoutCancel(t.Context()), map[string]string{"mood": "good", "pipe": pipe}, 1)
		if err == nil && len(configs) != 1 {
			err = fmt.Errorf("%v", configs)
		}
		other <- err
	}()
	first, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	crashed := make(chan error, 1)
	before := h.List()[0].PID
	go func() {
		_, err := c.TaskConfigs(context.WithoutCancel(t.Context()), map[string]string{"mood": "exit"}, 1)
		crashed <- err
	}()
	for alive(before) {
		runtime.Gosched()
	}
	again, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(again, "go")
	if err := errors.Join(<-other, first.Close(), again.Close()); err != nil {
		t.Errorf("the other call: %v", err)
	}
	if err := <-crashed; err == nil || !strings.Contains(err.Error(), "faults crashed: exit status 3; its last words: out of luck") {
		t.Errorf("the call that it died of: %v", err)
	}
}

// TestACrashIsOneTasks has two tasks and a call of the same program, and only one of them crashes.
func TestACrashIsOneTasks(t *testing.T) {
	h, c := connectorOf(t, "moody-source", Config{})
	fine, finePID := startSource(t, c, "good")
	crashing, crashingPID := startSource(t, c, "good")
	if finePID == crashingPID || h.List()[0].PID == finePID {
		t.Fatal("tasks share a process")
	}
	if err := syscall.Kill(crashingPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-crashing.Done()
	if _, err := crashing.Poll(t.Context()); err == nil || !strings.Contains(err.Error(), "faults crashed: signal: killed") {
		t.Errorf("the task that crashes: %v", err)
	}
	if err := crashing.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "crashed") {
		t.Errorf("stopping what has crashed: %v", err)
	}
	good(t, h)
	if list := h.List(); list[0].Restarts != 0 || list[0].Tasks != 1 || list[0].Fault != "" {
		t.Errorf("the program: %+v", list[0])
	}
	if err := fine.Stop(t.Context()); err != nil {
		t.Errorf("the other task: %v", err)
	}
	if alive(finePID) || h.List()[0].Tasks != 0 {
		t.Error("the process of a task that has stopped lives on")
	}
}

func TestATaskThatTakesTooMuchMemory(t *testing.T) {
	_, c := connectorOf(t, "moody-source", Config{MaxMemoryBytes: 80 << 20})
	task, _ := startSource(t, c, "hungry")
	if _, err := task.Poll(t.Context()); err == nil || !strings.Contains(err.Error(), "plugin.memory.max.bytes") {
		t.Errorf("poll: %v", err)
	}
	_ = task.Stop(t.Context())
}

func TestATaskThatDoesNotStopIsKilled(t *testing.T) {
	_, c := connectorOf(t, "moody-source", Config{})
	task, pid := startSource(t, c, "hang")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := task.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stop: %v", err)
	}
	if alive(pid) {
		t.Error("the process lives on")
	}
}

func TestASinkThatCrashes(t *testing.T) {
	_, c := connectorOf(t, "MoodySink", Config{})
	task, err := c.StartSink(t.Context(), remote.Task{Connector: "my-moods"})
	if err != nil {
		t.Fatal(err)
	}
	record := func(mood string) []plugin.SinkRecord {
		return []plugin.SinkRecord{{Record: data.NewRecord("moods", data.Value{}, data.Value{V: mood})}}
	}
	if _, err := task.Put(t.Context(), record("good")); err != nil {
		t.Fatal(err)
	}
	var f *remote.Fault
	if _, err := task.Put(t.Context(), record("panic")); !errors.As(err, &f) || f.Text != "panic: index out of range" {
		t.Errorf("put: %v", err)
	}
	if _, err := task.Put(t.Context(), record("exit")); err == nil || !strings.Contains(err.Error(), "faults crashed: exit status 3") {
		t.Errorf("put: %v", err)
	}
	_ = task.Stop(t.Context())
}

func TestTasksThatDoNotStart(t *testing.T) {
	h, c := connectorOf(t, "moody-source", Config{})
	for mood, want := range map[string]string{"refuse": "not today", "exit-early": "faults crashed: exit status 3"} {
		if _, err := c.StartSource(t.Context(), remote.Task{Config: map[string]string{"mood": mood}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", mood, err)
		}
	}
	installScript(t, filepath.Dir(c.file.path), "faults", "#!/bin/sh\necho no more >&2\nexit 1\n")
	if _, err := c.StartSource(t.Context(), remote.Task{}); err == nil || !strings.Contains(err.Error(), "cannot be started") || !strings.Contains(err.Error(), "no more") {
		t.Errorf("another program: %v", err)
	}
	h.config.Checksums = map[string]string{"faults": strings.Repeat("0", 64)}
	if _, err := c.StartSource(t.Context(), remote.Task{}); !errors.Is(err, errRefused) {
		t.Errorf("a program that is not to run: %v", err)
	}
	if n := h.List()[0].Tasks; n != 0 {
		t.Errorf("%d tasks are left", n)
	}
}

func TestWatchHasAProcessOfItsOwn(t *testing.T) {
	h, c := connectorOf(t, "moody-source", Config{})
	changes := 0
	err := c.Watch(t.Context(), "my-moods", map[string]string{"mood": "exit"}, func() { changes++ })
	if err == nil || !strings.Contains(err.Error(), "crashed: exit status 3") || changes > 1 {
		t.Errorf("%d changes, %v", changes, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.Watch(ctx, "my-moods", map[string]string{"mood": "good"}, cancel); err != nil {
		t.Error(err)
	}
	if list := h.List(); list[0].Tasks != 0 || list[0].Restarts != 0 {
		t.Errorf("the program: %+v", list[0])
	}
}

func TestCloseEndsTasks(t *testing.T) {
	h, c := connectorOf(t, "moody-source", Config{})
	task, pid := startSource(t, c, "good")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("the process lives on")
	}
	if _, err := task.Poll(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("poll: %v", err)
	}
	_ = task.Stop(t.Context())
	if _, err := c.StartSource(t.Context(), remote.Task{}); !errors.Is(err, errStopped) {
		t.Errorf("a task of a closed host: %v", err)
	}
}

// TestWhatNobodyWantsDoesNotRun has a program without assignors beside one with some, until it has one, too.
func TestWhatNobodyWantsDoesNotRun(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	install(t, folder, "sources", "source")
	h, logs := start(t, folder, Config{Kinds: []pluginpb.Kind{pluginpb.Kind_KIND_ASSIGNOR}})
	for range 3 {
		if err := h.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		good(t, h)
	}
	if n := logs.FilterMessage("plugin offers nothing that is wanted here").Len(); n != 1 {
		t.Errorf("it was started %d times", n)
	}
	list := h.List()
	if last := list[len(list)-1]; last.Name != "moody-source" || last.State != "shadowed" || last.PID != 0 || last.Fault != "" {
		t.Errorf("it is %+v", last)
	}
	install(t, folder, "sources", "2")
	if err := h.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list := h.List(); len(list) != 8 || list[4].PID == 0 {
		t.Errorf("its successor: %+v", list)
	}
}

// benchmarkConnector is a connector in a process.
func benchmarkConnector(b *testing.B, class string) *Connector {
	folder := b.TempDir()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec %s\n", fixtureVariable, self)
	if err := os.WriteFile(filepath.Join(folder, "faults"), []byte(script), 0o700); err != nil {
		b.Fatal(err)
	}
	h, err := New(Config{Path: []string{folder}}, Deps{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := h.Close(); err != nil {
			b.Error(err)
		}
	})
	c, err := h.Connector(b.Context(), class)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// TestManyTasksStartAtOnce has more than may start at the same time.
func TestManyTasksStartAtOnce(t *testing.T) {
	_, c := connectorOf(t, "moody-source", Config{})
	pids := make([]int, 3*parallelStarts)
	var starts sync.WaitGroup
	for i := range pids {
		starts.Go(func() {
			task, err := c.StartSource(t.Context(), remote.Task{Config: map[string]string{"mood": "good"}})
			if err != nil {
				t.Error(err)
				return
			}
			batch, err := task.Poll(t.Context())
			if err = errors.Join(err, task.Stop(t.Context())); err != nil {
				t.Error(err)
				return
			}
			pids[i] = int(batch.Records[0].Value.V.(int64))
		})
	}
	starts.Wait()
	for i, pid := range pids {
		if pid == 0 || alive(pid) || slices.Contains(pids[:i], pid) {
			t.Errorf("task %d of %v", i, pids)
		}
	}
}

// hops are the sizes of batches and records that hops are measured with.
var hops = []struct{ records, bytes int }{{1, 100}, {100, 100}, {500, 100}, {2000, 100}, {500, 1000}}

// BenchmarkSourceHop measures a record on its way from a source's Poll.
func BenchmarkSourceHop(b *testing.B) {
	for _, hop := range hops {
		b.Run(fmt.Sprintf("records=%d/bytes=%d", hop.records, hop.bytes), func(b *testing.B) {
			c := benchmarkConnector(b, "moody-source")
			task, err := c.StartSource(b.Context(), remote.Task{Config: map[string]string{"records": fmt.Sprint(hop.records), "bytes": fmt.Sprint(hop.bytes)}})
			if err != nil {
				b.Fatal(err)
			}
			began, n := time.Now(), 0
			for b.Loop() {
				batch, err := task.Poll(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				n += len(batch.Records)
			}
			b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(n), "ns/record")
			if err := task.Stop(b.Context()); err != nil {
				b.Error(err)
			}
		})
	}
}

// BenchmarkSinkHop measures a record on its way to a sink's Put, and the answer.
func BenchmarkSinkHop(b *testing.B) {
	for _, hop := range hops {
		b.Run(fmt.Sprintf("records=%d/bytes=%d", hop.records, hop.bytes), func(b *testing.B) {
			c := benchmarkConnector(b, "moody-sink")
			task, err := c.StartSink(b.Context(), remote.Task{})
			if err != nil {
				b.Fatal(err)
			}
			records := make([]plugin.SinkRecord, hop.records)
			for i := range records {
				records[i].Record = data.NewRecord("moods", data.Value{}, data.Value{V: []byte(strings.Repeat("x", hop.bytes))})
				records[i].Original = plugin.TopicPartition{Topic: records[i].Topic, Partition: records[i].Partition}
			}
			began, n := time.Now(), 0
			for b.Loop() {
				if _, err := task.Put(b.Context(), records); err != nil {
					b.Fatal(err)
				}
				n += len(records)
			}
			b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(n), "ns/record")
			if err := task.Stop(b.Context()); err != nil {
				b.Error(err)
			}
		})
	}
}
