package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

func TestFaultsCostOneCallAndAreNamed(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	h, _ := start(t, folder, Config{CallTimeout: time.Minute})
	tests := []struct {
		group string
		want  []string
	}{
		{"error", []string{"assignor faulty", "no member has a rack"}},
		{"panic", []string{"assignor faulty", "panic: index out of range"}},
		{"exit", []string{"faults crashed", "exit status 3", "out of luck"}},
		{"hang", []string{"no answer in time"}},
		{"huge", []string{"larger than 16777216 bytes"}},
		{"member", []string{"unknown member", "number 2 of 2"}},
		{"topic", []string{"unknown topic", "number 7 of 1"}},
	}
	for _, test := range tests {
		t.Run(test.group, func(t *testing.T) {
			ctx := t.Context()
			if test.group == "hang" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
			}
			answer, err := h.Assign(ctx, "faulty", ask(test.group))
			if err == nil {
				t.Fatalf("answer %v", answer)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			good(t, h)
		})
	}
	if status := h.List()[0]; status.Restarts != 2 || status.Calls != 14 {
		t.Errorf("after a crash and a hang: %+v", status)
	}
}

// TestAnEndSeenBeforeTheCallBreaks has the end of a process noted, and its connection closed, before a call uses it.
func TestAnEndSeenBeforeTheCallBreaks(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	h, _ := start(t, folder, Config{})
	good(t, h)
	f, _, err := h.find(t.Context(), offerKey{pluginpb.Kind_KIND_ASSIGNOR, "faulty"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.runner.kill("")
	<-p.runner.exited
	f.ended(p)
	outcome, err := h.judge(t.Context(), f, p, p.ping(t.Context()))
	f.release(p)
	if outcome != outcomeCrash || !strings.Contains(err.Error(), "faults crashed") {
		t.Errorf("%s: %v", outcome, err)
	}
	good(t, h)
}

// TestAHangDoesNotDisturbOthers has one call hang while another, to the same process, takes its time.
func TestAHangDoesNotDisturbOthers(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	h, _ := start(t, folder, Config{CallTimeout: time.Minute})
	good(t, h)
	done, release := waiting(t, h)
	hang, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := h.Assign(hang, "faulty", ask("hang")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hang: %v", err)
	}
	good(t, h)
	release()
	if err := <-done; err != nil {
		t.Errorf("the other call: %v", err)
	}
}

// TestASlowStartIsNoHang has a start leave a call less than half of its time.
func TestASlowStartIsNoHang(t *testing.T) {
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	goOn := filepath.Join(t.TempDir(), "go-on")
	installScript(t, folder, "faults", fmt.Sprintf("#!/bin/sh\nuntil [ -e %s ]; do sleep 0.02; done\n%s=1 exec %s\n", goOn, fixtureVariable, self))
	h, _ := start(t, folder, Config{CallTimeout: time.Minute})
	const callTime = 3 * time.Second
	short, cancel := context.WithTimeout(t.Context(), callTime)
	defer cancel()
	started := make(chan error, 1)
	time.AfterFunc(callTime*2/3, func() { started <- os.WriteFile(goOn, nil, 0o600) })
	if _, err := h.Assign(short, "faulty", ask("hang")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hang: %v", err)
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	good(t, h)
	if status := h.List()[0]; status.Restarts != 0 {
		t.Errorf("the process was replaced: %+v", status)
	}
}

// waiting starts a call that the plugin has taken when waiting returns, and that it answers when release is called.
func waiting(t *testing.T, h *Host) (done <-chan error, release func()) {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	request := ask("wait")
	request.Members[0].ID = pipe
	result := make(chan error, 1)
	go func() {
		_, err := h.Assign(context.WithoutCancel(t.Context()), "faulty", request)
		result <- err
	}()
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	return result, func() { fmt.Fprintln(f, "go"); _ = f.Close() }
}

func TestAChangedFileIsReloadedAndDrained(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	h, _ := start(t, folder, Config{CallTimeout: time.Minute})
	good(t, h)
	before := h.List()[0]
	done, release := waiting(t, h)
	install(t, folder, "faults", "2")
	good(t, h)
	after := h.List()[0]
	if before.Version != "1" || after.Version != "2" || before.PID == after.PID || before.SHA256 == after.SHA256 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if !alive(before.PID) {
		t.Error("the old process ended while it had a call")
	}
	release()
	if err := <-done; err != nil {
		t.Errorf("the call to the old process: %v", err)
	}
}

func TestARemovedFileIsUnloaded(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	h, _ := start(t, folder, Config{})
	good(t, h)
	p := h.snapshot()[0].running
	if err := os.Remove(filepath.Join(folder, "faults")); err != nil {
		t.Fatal(err)
	}
	if err := h.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-p.runner.exited
	if list := h.List(); len(list) != 0 {
		t.Errorf("still listed: %+v", list)
	}
	_, err := h.Assign(t.Context(), "faulty", ask("good"))
	if err == nil || !strings.Contains(err.Error(), "assignor faulty: no program in plugin.path ("+folder+") offers it") {
		t.Errorf("Assign = %v", err)
	}
}

func TestAnUnknownPluginNamesTheOthers(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	installScript(t, folder, "broken", "#!/bin/sh\necho no such option >&2; exit 4\n")
	installScript(t, folder, "talker", "#!/bin/sh\necho hello\n")
	if err := os.WriteFile(filepath.Join(folder, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, _ := start(t, folder, Config{})
	_, err := h.Assign(t.Context(), "none", ask("good"))
	if err == nil {
		t.Fatal("an unknown plugin has answered")
	}
	for _, want := range []string{"assignor none", "there are faulty", "broken cannot be started", "no such option", "talker cannot be started: no handshake", "hello"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "notes") {
		t.Errorf("a file that cannot be executed is a plugin: %v", err)
	}
	if list := h.List(); len(list) != 6 || list[0].State != stateFailed || list[1].State != stateRunning {
		t.Errorf("list %+v", list)
	}
}

func TestAProgramThatNeverStarts(t *testing.T) {
	folder := t.TempDir()
	installScript(t, folder, "silent", "#!/bin/sh\nexec cat\n")
	h, _ := start(t, folder, Config{StartTimeout: 200 * time.Millisecond})
	_, err := h.Assign(t.Context(), "none", ask("good"))
	if err == nil || !strings.Contains(err.Error(), "silent cannot be started") {
		t.Errorf("Assign = %v", err)
	}
}

func TestTheFirstOfTwoPluginsCounts(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "b", "late")
	install(t, folder, "a", "early")
	h, _ := start(t, folder, Config{})
	good(t, h)
	list := h.List()
	if len(list) != 8 || list[0].Version != "early" || list[0].State != stateRunning || list[4].Version != "late" || list[4].State != "shadowed" {
		t.Errorf("list %+v", list)
	}
}

func TestChecksums(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	sum, err := checksum(filepath.Join(folder, "faults"))
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Repeat("0", 64)
	tests := []struct {
		sums map[string]string
		want string
	}{
		{map[string]string{"faults": strings.ToUpper(sum)}, ""},
		{map[string]string{"faults": other}, "its checksum is " + sum + ", plugin.checksums wants " + other},
		{map[string]string{"another": other}, "no checksum for it"},
	}
	for _, test := range tests {
		h, _ := start(t, folder, Config{Checksums: test.sums})
		_, err := h.Assign(t.Context(), "faulty", ask("good"))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v: %v", test.sums, err)
		}
		if state := h.List()[0].State; (state == stateRefused) != (test.want != "") {
			t.Errorf("%v: state %s", test.sums, state)
		}
	}
	if _, err := New(Config{Checksums: map[string]string{"x": "abc"}}, Deps{}); err == nil {
		t.Error("a checksum that is none was taken")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	h, _ := start(t, folder, Config{MaxMemoryBytes: 60 << 20, CallTimeout: time.Minute})
	good(t, h)
	_, err := h.Assign(t.Context(), "faulty", ask("hungry"))
	if err == nil || !strings.Contains(err.Error(), "bytes of memory, 62914560 are allowed") {
		t.Errorf("Assign = %v", err)
	}
	good(t, h)
}

func TestACrashingProgramIsStartedWithBackoff(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	h, _ := start(t, folder, Config{})
	for range 3 {
		if _, err := h.Assign(t.Context(), "faulty", ask("exit")); err == nil {
			t.Fatal("a crash went unseen")
		}
	}
	f := h.snapshot()[0]
	f.mu.Lock()
	wait, failures := time.Until(f.notUntil), f.failures
	f.mu.Unlock()
	if failures != 3 || wait <= 0 || wait > 200*time.Millisecond {
		t.Errorf("%d failures, %v to wait", failures, wait)
	}
	hurried, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := h.Assign(hurried, "faulty", ask("good")); err == nil || !strings.Contains(err.Error(), "will be started again in") {
		t.Errorf("during the pause: %v", err)
	}
	good(t, h)
	if f.failures != 0 {
		t.Error("a good call does not forget the failures")
	}
}

func TestWantsLag(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	h, _ := start(t, folder, Config{})
	if wants, err := h.WantsLag(t.Context(), "faulty"); err != nil || !wants {
		t.Errorf("faulty: %v, %v", wants, err)
	}
	if _, err := h.WantsLag(t.Context(), "none"); err == nil || !strings.Contains(err.Error(), "assignor none: no program") {
		t.Errorf("none: %v", err)
	}
}

func TestPartition(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	h, _ := start(t, folder, Config{})
	records := []plugin.Record{{Key: []byte("four")}, {}}
	got, err := h.Partition(t.Context(), "key-length", "orders", 3, records)
	if err != nil || fmt.Sprint(got) != "[1 0]" {
		t.Errorf("Partition = %v, %v", got, err)
	}
	if _, err := h.Partition(t.Context(), "key-length", "beyond", 3, records); err == nil || !strings.Contains(err.Error(), "partition 3 of 3") {
		t.Errorf("beyond: %v", err)
	}
}

func TestWhatAPluginWritesIsLogged(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	h, logs := start(t, folder, Config{CallTimeout: time.Minute})
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	if _, err := h.Assign(trace.ContextWithSpanContext(t.Context(), span), "faulty", ask("flood")); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	lines := logs.FilterMessage("asked").All()
	if len(lines) != 1 || lines[0].ContextMap()["group"] != "flood" || lines[0].ContextMap()["trace_id"] != span.TraceID().String() {
		t.Errorf("lines %+v", lines)
	}
	if logs.FilterMessage("line 7").Len() == 0 {
		t.Error("what was printed is not in the log")
	}
}

func TestCloseEndsEverything(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	h, _ := start(t, folder, Config{CallTimeout: time.Minute})
	good(t, h)
	pid := h.List()[0].PID
	done, _ := waiting(t, h)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("the plugin lives on")
	}
	if err := <-done; err == nil {
		t.Error("a call outlived the host")
	}
	if _, err := os.Stat(h.sockets.Path); !os.IsNotExist(err) {
		t.Errorf("sockets are left: %v", err)
	}
	if _, err := h.Assign(t.Context(), "faulty", ask("good")); err == nil {
		t.Error("a closed host has answered")
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestListIsServedAndCallsAreCounted(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	registry := prometheus.NewRegistry()
	h, err := New(Config{Path: []string{folder}}, Deps{Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	good(t, h)
	if _, err := h.Assign(t.Context(), "faulty", ask("error")); err == nil {
		t.Error("no error")
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest("GET", "/plugins", nil))
	var list []Status
	if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 4 || list[0].Kind != "assignor" || list[0].Name != "faulty" || list[0].PID == 0 || list[0].Calls != 2 || list[0].P99Millis <= 0 {
		t.Errorf("list %+v", list)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "cauce_plugin_calls_total" {
				counted[m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if counted["ok"] != 1 || counted["error"] != 1 {
		t.Errorf("counted %v", counted)
	}
}

// TestOneHostAfterTheOther gives a process's metrics to a second host when the first has ended, and has one count beside the first meanwhile.
func TestOneHostAfterTheOther(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		h, err := New(Config{}, Deps{Metrics: registry})
		if err != nil {
			t.Fatal(err)
		}
		beside, err := New(Config{}, Deps{Metrics: registry})
		if err != nil {
			t.Fatal(err)
		}
		if err := beside.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Assign(t.Context(), "missing", ask("good")); err == nil {
			t.Error("a plugin that does not exist has answered")
		}
		if families, err := registry.Gather(); err != nil || len(families) == 0 {
			t.Errorf("%d metrics, %v", len(families), err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		if families, err := registry.Gather(); err != nil || len(families) > 0 {
			t.Errorf("%d metrics are left, %v", len(families), err)
		}
	}
}

// large is a request of 1,000 members that share 10,000 partitions.
func large() *plugin.Request {
	r := &plugin.Request{Group: "good"}
	var all []int
	for i := range 100 {
		r.Topics = append(r.Topics, plugin.Topic{ID: [16]byte{byte(i)}, Name: fmt.Sprintf("topic-%03d", i), Partitions: 100})
		all = append(all, i)
	}
	for i := range 1000 {
		m := plugin.Member{ID: fmt.Sprintf("consumer-%030d", i), Topics: all}
		for p := i * 10; p < i*10+10; p++ {
			if p%10 == 0 {
				m.Target = append(m.Target, plugin.TopicPartitions{Topic: p / 100})
			}
			m.Target[0].Partitions = append(m.Target[0].Partitions, int32(p%100))
		}
		r.Members = append(r.Members, m)
	}
	return r
}

func TestALargeRequestIsSmall(t *testing.T) {
	if n := proto.Size(encodeRequest("faulty", large())); n > 100_000 {
		t.Errorf("%d bytes", n)
	}
}

func BenchmarkHop(b *testing.B) {
	for _, size := range []string{"small", "large"} {
		b.Run(size, func(b *testing.B) {
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
			defer h.Close()
			request := ask("good")
			if size == "large" {
				request = large()
			}
			for b.Loop() {
				if _, err := h.Assign(b.Context(), "faulty", request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
