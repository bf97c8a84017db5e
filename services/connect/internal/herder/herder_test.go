package herder

import (
	"errors"
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
		after := Plan(test.restart, before)
		if got := [3]status.State{after.Connector.State, after.Tasks[0].Status.State, after.Tasks[1].Status.State}; got != test.want {
			t.Errorf("%+v: %v", test.restart, got)
		}
		if test.restart.IncludeTasks && after.Tasks[0].Status.Trace != "" {
			t.Errorf("%+v keeps the trace", test.restart)
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
	if err := h.lead(); !errors.Is(err, ErrNotReady) || h.Ready() {
		t.Errorf("before the first rebalance: %v", err)
	}
	h.SetGroup(Group{LeaderURL: "leader", Mine: map[work.Item]bool{task: true}})
	if err := h.lead(); !elsewhere(err, "leader") || !h.Ready() {
		t.Errorf("not the leader: %v", err)
	}
	if err := h.own(task); err != nil {
		t.Errorf("its own task: %v", err)
	}
	if err := h.own(work.Connector("c")); !elsewhere(err, "leader") {
		t.Errorf("another's: %v", err)
	}
	h.SetGroup(Group{Leader: true, Owners: map[work.Item]string{task: "owner"}})
	if err := h.own(task); h.lead() != nil || !elsewhere(err, "owner") {
		t.Errorf("the leader, of another's task: %v", err)
	}
	if err := h.own(work.Connector("c")); !errors.Is(err, ErrConflict) {
		t.Errorf("the leader, of what nobody runs: %v", err)
	}
	h.SetGroup(Group{Leader: true, Pending: true, Mine: map[work.Item]bool{task: true}})
	if h.lead() == nil || h.own(task) == nil {
		t.Error("changes are made while the group is to rebalance")
	}
}
