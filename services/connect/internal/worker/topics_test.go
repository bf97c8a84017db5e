package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/member"
	"github.com/cauce-stream/cauce/services/connect/internal/topiclog"
	"github.com/cauce-stream/cauce/services/connect/internal/topicwriter"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// scripted is a writer that answers as it is told to, and a membership that counts.
type scripted struct {
	answers []error
	told    []string
	rejoins int
}

func (s *scripted) Write(_ context.Context, records []topicwriter.Record) error {
	s.told = append(s.told, fmt.Sprintf("write %s", records[0].Key))
	if len(s.answers) == 0 {
		return nil
	}
	err := s.answers[0]
	s.answers = s.answers[1:]
	return err
}

func (s *scripted) Claim(context.Context) error {
	s.told = append(s.told, "claim")
	return nil
}

func (s *scripted) Close()                          {}
func (s *scripted) Run(context.Context) error       { return nil }
func (s *scripted) ReadToEnd(context.Context) error { return nil }
func (s *scripted) Rejoin()                         { s.rejoins++ }

// newLeader is what of a worker follows the config topic and its group, as the leader of that.
func newLeader(t *testing.T, s *scripted) *Worker {
	t.Helper()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{log: zap.NewNop(), metrics: m, member: s, herder: herder.New(herder.Config{}, herder.Deps{}), leading: make(chan struct{}, 1)}
	w.crew = newCrew(w)
	w.topics = &topics{w: w, live: true, configs: topic{reader: s, writer: s}, plain: s}
	w.settle(1, 0)
	return w
}

// settle is a rebalance by the configuration before an offset.
func (w *Worker) settle(generation int32, offset int64) {
	w.crew.settled(member.Settlement{Generation: generation, MemberID: "me", ConfigOffset: offset, Leader: true, LeaderURL: "http://me"})
}

// follow has the worker read records of the config topic from an offset on.
func (w *Worker) follow(offset int64, records ...configs.Record) {
	for i, r := range records {
		w.topics.followConfig(topiclog.Record{Offset: offset + int64(i), Key: []byte(r.Key), Value: r.Value})
	}
}

// TestALeaderThatWasFenced claims the topic back once the group has said that it leads yet, and not before.
func TestALeaderThatWasFenced(t *testing.T) {
	s := &scripted{answers: []error{nil, topicwriter.ErrFenced}}
	w := newLeader(t, s)
	write := func() error {
		return w.topics.writeConfigs(t.Context(), []configs.Record{configs.ConnectorRecord("a", configs.Config{"name": "a"})})
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if err := write(); !errors.Is(err, topicwriter.ErrFenced) {
		t.Fatalf("%v", err)
	}
	if s.rejoins != 1 || !w.herder.Group().Pending {
		t.Errorf("%d rounds were asked for, pending %t", s.rejoins, w.herder.Group().Pending)
	}
	w.settle(2, 0)
	if w.herder.Group().Pending {
		t.Error("pending after the rebalance")
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	s.answers = []error{context.DeadlineExceeded}
	if err := write(); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	// What any worker may write needs no claim.
	if err := w.topics.writeConfigs(t.Context(), []configs.Record{configs.TargetRecord("a", configs.Paused)}); err != nil {
		t.Fatal(err)
	}
	want := []string{"claim", "write connector-a", "write connector-a", "claim", "write connector-a", "write connector-a", "claim", "write connector-a", "write target-state-a"}
	if !slices.Equal(s.told, want) {
		t.Errorf("%q, want %q", s.told, want)
	}
}

// TestANewLeaderClaims has each term as the leader begin with a claim, but not a rebalance within.
func TestANewLeaderClaims(t *testing.T) {
	s := &scripted{}
	w := newLeader(t, s)
	write := func() {
		t.Helper()
		if err := w.topics.writeConfigs(t.Context(), []configs.Record{configs.SessionKeyRecord(configs.SessionKey{})}); err != nil {
			t.Fatal(err)
		}
	}
	write()
	w.settle(2, 0)
	write()
	w.crew.settled(member.Settlement{})
	w.settle(4, 0)
	write()
	want := []string{"claim", "write session-key", "write session-key", "claim", "write session-key"}
	if !slices.Equal(s.told, want) {
		t.Errorf("%q, want %q", s.told, want)
	}
}

// TestChangesCallForRebalances has each change that moves work be followed by a round, whether it is read before or after what the last round was by.
func TestChangesCallForRebalances(t *testing.T) {
	s := &scripted{}
	w := newLeader(t, s)
	pending := func(what string, want bool) {
		t.Helper()
		if got := w.herder.Group().Pending; got != want {
			t.Errorf("%s: pending %t", what, got)
		}
	}
	a := configs.Config{"name": "a", "connector.class": "c"}
	w.follow(0, configs.ConnectorRecord("a", a))
	pending("a new connector", true)
	w.settle(2, 0) // made before the record was read
	pending("a round without it", true)
	if s.rejoins != 1 {
		t.Errorf("%d rounds were asked for", s.rejoins)
	}
	w.settle(3, 1)
	pending("a round with it", false)
	w.follow(1, configs.ConnectorRecord("a", configs.Config{"name": "a", "connector.class": "c", "x": "y"}), configs.TargetRecord("a", configs.Paused))
	pending("another configuration", false)
	w.follow(3, configs.TaskRecords("a", []configs.Config{{"n": "0"}})...)
	pending("tasks", true)
	w.settle(4, w.herder.Configs().Offset())
	pending("a round with them", false)
	w.follow(w.herder.Configs().Offset(), configs.RemovalRecords("a")...)
	pending("its end", true)
}

// TestNothingStartsBeforeTheRound has a task that a round has given to this worker wait when its configuration has changed since: others may still run what
// the new one takes away from them.
func TestNothingStartsBeforeTheRound(t *testing.T) {
	s := &scripted{}
	w := newLeader(t, s)
	a := configs.Config{"name": "a", "connector.class": "c"}
	w.follow(0, append([]configs.Record{configs.ConnectorRecord("a", a)}, configs.TaskRecords("a", []configs.Config{{"n": "0"}})...)...)
	item := work.Item{Connector: "a"}
	mine := func(offset int64) {
		w.crew.settled(member.Settlement{Generation: 2, MemberID: "me", ConfigOffset: offset, Leader: true, Mine: []work.Item{item}})
	}
	mine(w.herder.Configs().Offset())
	w.follow(w.herder.Configs().Offset(), configs.TaskRecords("a", []configs.Config{{"n": "other"}})...)
	rejoins := s.rejoins
	w.crew.follow(t.Context())
	if len(w.crew.running) > 0 || s.rejoins != rejoins+1 {
		t.Errorf("%d run, %d rounds were asked for", len(w.crew.running), s.rejoins-rejoins)
	}
}
