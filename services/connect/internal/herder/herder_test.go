package herder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

func TestPlan(t *testing.T) {
	before := Status{Name: "c", Connector: status.Status{State: status.Running}, Tasks: []TaskStatus{
		{work.Item{Connector: "c", Task: 0}, status.Status{State: status.Failed, Trace: "boom"}}, {work.Item{Connector: "c", Task: 1}, status.Status{State: status.Paused}},
	}}
	for _, test := range []struct {
		restart configs.Restart
		want    [3]status.State
	}{
		{configs.Restart{}, [3]status.State{status.Restarting, status.Failed, status.Paused}},
		{configs.Restart{IncludeTasks: true}, [3]status.State{status.Restarting, status.Restarting, status.Restarting}},
		{configs.Restart{OnlyFailed: true}, [3]status.State{status.Running, status.Failed, status.Paused}},
		{configs.Restart{IncludeTasks: true, OnlyFailed: true}, [3]status.State{status.Running, status.Restarting, status.Paused}},
	} {
		after := plan(test.restart, before)
		if got := [3]status.State{after.Connector.State, after.Tasks[0].Status.State, after.Tasks[1].Status.State}; got != test.want {
			t.Errorf("%+v: %v", test.restart, got)
		}
		if after.Tasks[0].Status.Trace != "boom" {
			t.Errorf("%+v forgets what had failed", test.restart)
		}
	}
	if before.Tasks[0].Status.State != status.Failed {
		t.Error("the plan has changed the status it was made of")
	}
}

func TestWhoIsToAnswer(t *testing.T) {
	h := New(Config{}, Deps{})
	task := work.Item{Connector: "c", Task: 0}
	elsewhere := func(err error, url string) bool {
		var e *Elsewhere
		return errors.As(err, &e) && e.URL == url
	}
	if err := h.lead(t.Context()); !errors.Is(err, ErrNotReady) || h.Ready() {
		t.Errorf("before the first rebalance: %v", err)
	}
	h.SetGroup(Group{LeaderURL: "leader", Mine: map[work.Item]bool{task: true}})
	if err := h.lead(t.Context()); !elsewhere(err, "leader") || !h.Ready() {
		t.Errorf("not the leader: %v", err)
	}
	if err := h.own(t.Context(), task); err != nil {
		t.Errorf("its own task: %v", err)
	}
	if err := h.own(t.Context(), work.Connector("c")); !elsewhere(err, "leader") {
		t.Errorf("another's: %v", err)
	}
	h.SetGroup(Group{Leader: true, Owners: map[work.Item]string{task: "owner"}})
	if err := h.own(t.Context(), task); h.lead(t.Context()) != nil || !elsewhere(err, "owner") {
		t.Errorf("the leader, of another's task: %v", err)
	}
	if err := h.own(t.Context(), work.Connector("c")); !errors.Is(err, ErrConflict) {
		t.Errorf("the leader, of what nobody runs: %v", err)
	}
	h.SetGroup(Group{Leader: true, Pending: true, Mine: map[work.Item]bool{task: true}})
	if h.lead(t.Context()) == nil || h.own(t.Context(), task) == nil {
		t.Error("changes are made while the group is to rebalance")
	}
}

// topics are what a herder writes to, which follows it at once.
type topics struct {
	herder *Herder
	next   int64
	status []string
}

func lead(t *testing.T) *topics {
	w := &topics{}
	w.herder = New(Config{}, Deps{
		WriteConfigs: func(_ context.Context, records []configs.Record) error {
			for _, r := range records {
				if _, err := w.herder.FollowConfig(w.next, r.Key, r.Value); err != nil {
					t.Error(err)
				}
				w.next++
			}
			return nil
		},
		WriteStatus: func(_ context.Context, records []status.Record) error {
			for _, r := range records {
				w.status = append(w.status, fmt.Sprintf("%s %s", r.Key, r.Value))
				if err := w.herder.FollowStatus(r.Key, r.Value); err != nil {
					t.Error(err)
				}
			}
			return nil
		},
	})
	w.herder.SetGroup(Group{Leader: true})
	return w
}

func TestSweep(t *testing.T) {
	w := lead(t)
	h, ctx := w.herder, t.Context()
	running := status.Status{State: status.Running, WorkerID: "a:1"}
	records := append([]configs.Record{configs.ConnectorRecord("kept", configs.Config{})}, configs.TaskRecords("kept", []configs.Config{{}})...)
	if err := h.deps.WriteConfigs(ctx, records); err != nil {
		t.Fatal(err)
	}
	err := h.deps.WriteStatus(ctx, []status.Record{
		status.StatusRecord(work.Connector("kept"), running), status.StatusRecord(work.Item{Connector: "kept", Task: 0}, running), status.StatusRecord(work.Item{Connector: "kept", Task: 1}, running),
		status.StatusRecord(work.Connector("gone"), running), status.TopicRecord(status.Topic{Name: "t", Connector: "kept"}), status.TopicRecord(status.Topic{Name: "t", Connector: "gone"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.status = nil
	for range 2 {
		if err := h.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"status-connector-gone ", "status-task-kept-1 ", "status-topic-t:connector-gone "}; !slices.Equal(w.status, want) {
		t.Errorf("swept %q", w.status)
	}
	h.SetGroup(Group{LeaderURL: "leader"})
	var elsewhere *Elsewhere
	if err := h.Sweep(ctx); !errors.As(err, &elsewhere) {
		t.Errorf("another sweeps: %v", err)
	}
}

func TestRotateKey(t *testing.T) {
	w := lead(t)
	made := 0
	generate := func() ([]byte, error) { made++; return []byte{byte(made)}, nil }
	for _, step := range []struct {
		nowMs, ttlMs int64
		algorithm    string
		want         int
	}{
		{1000, 500, "HmacSHA256", 1}, {1499, 500, "HmacSHA256", 1}, {1500, 500, "HmacSHA256", 2}, {9000, 0, "HmacSHA256", 2}, {9000, 0, "HmacSHA512", 3},
	} {
		if err := w.herder.RotateKey(t.Context(), step.nowMs, step.ttlMs, step.algorithm, generate); err != nil {
			t.Fatal(err)
		}
		if k := w.herder.SessionKey(); made != step.want || k.Algorithm != step.algorithm || int(k.Key[0]) != step.want {
			t.Errorf("%+v: %d keys were made, the newest is %+v", step, made, k)
		}
	}
	broken := func() ([]byte, error) { return nil, errors.New("no randomness") }
	if err := w.herder.RotateKey(t.Context(), 1e6, 1, "HmacSHA512", broken); err == nil {
		t.Error("a key of nothing")
	}
}

// TestFencingHappensOnce has two tasks ask for it at the same time, as those of a new set do.
func TestFencingHappensOnce(t *testing.T) {
	w := lead(t)
	h, ctx := w.herder, t.Context()
	var rounds atomic.Int32
	under, others := make(chan struct{}), make(chan error, 2)
	h.deps.Fence = func(context.Context, string, int) error {
		rounds.Add(1)
		<-under
		return nil
	}
	records := append([]configs.Record{configs.ConnectorRecord("c", configs.Config{})}, configs.TaskRecords("c", []configs.Config{{}, {}})...)
	records = append(records, configs.FencingRecord("c", 2))
	records = append(records, configs.TaskRecords("c", []configs.Config{{"a": "1"}, {}})...)
	if err := h.deps.WriteConfigs(ctx, records); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		go func() { others <- h.Fence(ctx, "c") }()
	}
	close(under)
	for range 2 {
		if err := <-others; err != nil {
			t.Error(err)
		}
	}
	if n := rounds.Load(); n != 1 {
		t.Errorf("%d rounds of fencing", n)
	}
}
