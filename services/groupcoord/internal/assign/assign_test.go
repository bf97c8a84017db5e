package assign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
)

// fixtureVariable makes the test program the plugin program of the tests.
const fixtureVariable = "ASSIGN_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(fixtureVariable) != "" {
		plugin.Serve(faulty{}, curious{})
		return
	}
	os.Exit(m.Run())
}

// faulty fails as the group of the request says.
type faulty struct{}

func (faulty) Info() plugin.Info { return plugin.Info{Name: "faulty", Version: "1"} }

func (faulty) Assign(_ context.Context, r *plugin.Request) (plugin.Response, error) {
	all := func(numbers ...int32) []plugin.TopicPartitions {
		return []plugin.TopicPartitions{{Topic: 0, Partitions: numbers}}
	}
	switch r.Group {
	case "error":
		return nil, errors.New("cannot decide")
	case "crash":
		os.Exit(7)
	case "hang":
		select {}
	case "twice":
		return plugin.Response{all(0, 1), all(1, 2)}, nil
	case "twice to one":
		return plugin.Response{all(0, 1, 2, 2)}, nil
	case "missing":
		return plugin.Response{all(0), all(2)}, nil
	case "unknown member":
		return plugin.Response{all(0), all(1), all(2)}, nil
	case "unknown partition":
		return plugin.Response{all(0, 1, 2, 3)}, nil
	case "huge":
		return plugin.Response{all(slices.Repeat([]int32{1 << 30}, 20<<20)...)}, nil // five bytes each
	case "targets":
		return nil, fmt.Errorf("%v %v %v", r.Topics, r.Members[0], r.Members[1])
	}
	return plugin.Response{all(2, 0), all(1)}, nil
}

// curious wants to know the lag, and repeats it.
type curious struct{}

func (curious) Info() plugin.Info { return plugin.Info{Name: "curious", Version: "1", WantsLag: true} }

func (curious) Assign(_ context.Context, r *plugin.Request) (plugin.Response, error) {
	return nil, fmt.Errorf("lag %v", r.Topics[0].Lag)
}

// input is a question about two members and three partitions.
func input(group string) *assignment.Input {
	id := metadata.TopicID{1}
	return &assignment.Input{
		Group: group, Epoch: 4, Assignor: "faulty",
		Topics:  []assignment.Topic{{ID: id, Name: "orders", Count: 3, Racks: [][]string{{"x"}, {"x", "y"}, nil}}},
		Members: []assignment.Member{{ID: "a", Rack: "x", Topics: []metadata.TopicID{id}}, {ID: "b", InstanceID: "i", Topics: []metadata.TopicID{id}}},
	}
}

type answer struct {
	out assignment.Output
	err error
}

// ask starts a question.
func ask(a *Asker, in *assignment.Input) <-chan answer {
	answers := make(chan answer, 1)
	a.Ask(trace.SpanContext{}, in, nil, func(out assignment.Output, err error) { answers <- answer{out, err} })
	return answers
}

func start(t *testing.T, timeout time.Duration) *Asker {
	t.Helper()
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec %s\n", fixtureVariable, self)
	if err := os.WriteFile(filepath.Join(folder, "faulty"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.DebugLevel)
	h, err := host.New(host.Config{Path: []string{folder}, CallTimeout: time.Minute}, host.Deps{Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	a := New(h, timeout)
	t.Cleanup(func() {
		a.Close()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, line := range logs.All() {
				t.Log(line.Level, line.Message, line.ContextMap())
			}
		}
	})
	return a
}

func good(t *testing.T, a *Asker) {
	t.Helper()
	got := <-ask(a, input("good"))
	if got.err != nil || fmt.Sprint(got.out["a"][metadata.TopicID{1}], got.out["b"][metadata.TopicID{1}]) != "[0 2] [1]" {
		t.Errorf("the next answer: %v, %v", got.out, got.err)
	}
}

func TestFaultsAreNamedAndTheNextAnswerIsTaken(t *testing.T) {
	a := start(t, time.Minute)
	good(t, a)
	hurried := New(a.host, 300*time.Millisecond)
	defer hurried.Close()
	tests := []struct{ group, want string }{
		{"error", "cannot decide"},
		{"crash", "faulty crashed: exit status 7"},
		{"hang", "no answer in time"},
		{"twice", "partition orders-1 goes to both"},
		{"twice to one", `partition orders-2 goes to both "a" and "a"`},
		{"missing", "nobody has partitions [orders-1]"},
		{"unknown member", "unknown member: number 2 of 2"},
		{"unknown partition", "topic orders has no partition 3"},
		{"huge", "larger than 16777216 bytes"},
	}
	for _, test := range tests {
		t.Run(test.group, func(t *testing.T) {
			asker := a
			if test.group == "hang" {
				asker = hurried
			}
			got := <-ask(asker, input(test.group))
			if got.err == nil || got.out != nil {
				t.Fatalf("%v was taken", got.out)
			}
			if !strings.Contains(got.err.Error(), "assignor faulty: ") || !strings.Contains(got.err.Error(), test.want) {
				t.Errorf("%v, want %q", got.err, test.want)
			}
			good(t, a)
		})
	}
}

func TestAnUnknownAssignor(t *testing.T) {
	a := start(t, 10*time.Second)
	in := input("good")
	in.Assignor = "none"
	if got := <-ask(a, in); got.err == nil || !strings.Contains(got.err.Error(), "assignor none: no program in plugin.path") {
		t.Errorf("%v, %v", got.out, got.err)
	}
}

// TestWhatAPluginSees has the plugin repeat the question.
func TestWhatAPluginSees(t *testing.T) {
	a := start(t, 10*time.Second)
	in := input("targets")
	in.Members[0].Target = assignment.Partitions{{1}: {0, 2}, {9}: {5}} // of topic 9 nobody wants to know any more
	got := <-ask(a, in)
	want := "{a  x [0] [{0 [0 2]}]} {b i  [0] []}"
	if got.err == nil || !strings.Contains(got.err.Error(), want) || !strings.Contains(got.err.Error(), "orders 3 [[x] [x y] []]") {
		t.Errorf("%v, want %s", got.err, want)
	}
}

func TestLagIsMeasuredForThoseThatWantIt(t *testing.T) {
	a := start(t, 10*time.Second)
	for assignor, want := range map[string]string{"curious": "lag [3 -1 0]", "faulty": "cannot decide"} {
		in := input("error")
		in.Assignor = assignor
		answers := make(chan answer, 1)
		measured := false
		measure := func(context.Context) [][]int64 { measured = true; return [][]int64{{3, -1, 0}} }
		a.Ask(trace.SpanContext{}, in, measure, func(out assignment.Output, err error) { answers <- answer{out, err} })
		if got := <-answers; got.err == nil || !strings.Contains(got.err.Error(), want) || measured != (assignor == "curious") {
			t.Errorf("%s: %v, measured %v", assignor, got.err, measured)
		}
	}
}

func TestCloseEndsQuestionsThatHang(t *testing.T) {
	a := start(t, time.Hour)
	good(t, a)
	var open []<-chan answer
	for range parallelQuestions + 2 { // some wait for their turn
		open = append(open, ask(a, input("hang")))
	}
	a.Close()
	for _, answers := range open {
		if got := <-answers; !errors.Is(got.err, errClosed) {
			t.Errorf("%v, %v", got.out, got.err)
		}
	}
	a.Ask(trace.SpanContext{}, input("good"), nil, func(assignment.Output, error) { t.Error("called after Close") })
}

func TestAnAssignorThatTakesItsTimeHoldsUpNoOther(t *testing.T) {
	a := start(t, time.Hour)
	held, release := make(chan struct{}), make(chan struct{})
	for range parallelQuestions {
		in := input("error")
		in.Assignor = "curious"
		a.Ask(trace.SpanContext{}, in, func(context.Context) [][]int64 {
			held <- struct{}{}
			<-release
			return nil
		}, func(assignment.Output, error) {})
		<-held
	}
	select {
	case got := <-ask(a, input("good")):
		if got.err != nil {
			t.Error(got.err)
		}
	case <-time.After(20 * time.Second):
		t.Error("no answer")
	}
	close(release)
}

func TestHostConfig(t *testing.T) {
	load := func(pairs map[string]string) (host.Config, error) {
		values, err := config.FromMap(configkeys.Broker(), pairs)
		if err != nil {
			t.Fatal(err)
		}
		return HostConfig(values)
	}
	c, err := load(map[string]string{"plugin.path": "/a,/b", "plugin.checksums": "x=12, y=34", "group.assignor.timeout.ms": "250", "plugin.memory.max.bytes": "7"})
	if err != nil || fmt.Sprint(c.Path, c.Checksums, c.CallTimeout, c.MaxMemoryBytes) != "[/a /b] map[x:12 y:34] 250ms 7" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := load(nil); err != nil || len(c.Path) != 1 || filepath.Base(c.Path[0]) != "plugins" || c.Checksums != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := load(map[string]string{"plugin.checksums": "x"}); err == nil {
		t.Error("a checksum without a file was taken")
	}
}
