package worker

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/topicwriter"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// member runs a worker that is in the group.
func (f *fixture) member(pairs ...string) *running {
	f.t.Helper()
	pairs = append([]string{"scheduled.rebalance.max.delay.ms", "0", "heartbeat.interval.ms", "100", "session.timeout.ms", "6000",
		"offset.storage.partitions", "2", "status.storage.partitions", "2"}, pairs...)
	return f.run(Config{Values: f.parse(f.properties(pairs...))})
}

// TestAGroup has two workers share tasks, each of which runs once, and one take over what the other leaves.
func TestAGroup(t *testing.T) {
	for _, support := range []string{"disabled", "enabled"} {
		f := newFixture(t)
		first := f.member("exactly.once.source.support", support)
		config := f.config("a/b", 4) // a name that is escaped where workers ask each other
		config["producer.override.enable.idempotence"], config["producer.override.max.in.flight.requests.per.connection"] = "false", "3"
		first.create(config)
		first.is("a/b=RUNNING", "a/b-0=RUNNING", "a/b-1=RUNNING", "a/b-2=RUNNING", "a/b-3=RUNNING")
		second := f.member("exactly.once.source.support", support)
		shared := func(r *running) bool {
			n := 0
			for item := range r.herder.Group().Mine {
				if item.IsTask() {
					n++
				}
			}
			return n == 2 && !r.herder.Group().Pending
		}
		second.eventually("two tasks each", func() bool { return shared(first) && shared(second) })
		second.is("a/b=RUNNING", "a/b-0=RUNNING", "a/b-1=RUNNING", "a/b-2=RUNNING", "a/b-3=RUNNING")
		first.stop()
		all := work.Tasks("a/b", 4)
		second.eventually("all tasks", func() bool {
			mine := second.herder.Group().Mine
			return !slices.ContainsFunc(all, func(item work.Item) bool { return !mine[item] })
		})
		second.is("a/b=RUNNING", "a/b-0=RUNNING", "a/b-1=RUNNING", "a/b-2=RUNNING", "a/b-3=RUNNING")
		second.create(f.config("a/b", 2))
		second.is("a/b-0=RUNNING", "a/b-1=RUNNING", "a/b-2=", "a/b-3=")
		if err := second.herder.Delete(t.Context(), "a/b"); err != nil {
			t.Fatal(err)
		}
		second.is("a/b=", "a/b-0=", "a/b-1=")
		second.stop()
		for _, task := range []string{"a/b-0", "a/b-1", "a/b-2", "a/b-3"} {
			if starts, stops := f.count("start:"+task), f.count("stop:"+task); starts != stops || starts < 1 {
				t.Errorf("%s has started %d times and stopped %d times", task, starts, stops)
			}
		}
	}
}

// TestLateStates has a state that came after the end of what it is about go as well.
func TestLateStates(t *testing.T) {
	f := newFixture(t)
	r := f.member()
	gone := work.Item{Connector: "gone"}
	r.eventually("the state", func() bool {
		r.states.say(gone, status.Unassigned, "", "") // again if the first round's sweep took it away
		return r.state("gone-0") == "UNASSIGNED"
	})
	r.eventually("its end", func() bool {
		if err := r.duties(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r.state("gone-0") == ""
	})
}

// TestOffsetTopicsOfConnectors has a topic that cannot be made hold up only whoever wants it, and one that was deleted be made again.
func TestOffsetTopicsOfConnectors(t *testing.T) {
	f := newFixture(t)
	r := f.member()
	read := func(want int) {
		t.Helper()
		where, err := r.stores.of(t.Context(), configs.Config{"offsets.storage.topic": "own"})
		if err != nil {
			t.Fatal(err)
		}
		entries, err := where.entries(t.Context(), "a")
		if err != nil || len(entries) != want {
			t.Fatalf("%v, %v", entries, err)
		}
		r.eventually("a write", func() bool { // the first may be to a topic that was deleted
			return where.first.writer.Write(t.Context(), []topicwriter.Record{{Key: []byte(`["a",{"p":1}]`), Value: []byte(`{"n":1}`)}}) == nil
		})
	}
	read(0)
	asked := make(chan struct{}, 1000)
	f.cluster.ControlKey(int16(kmsg.CreateTopics), func(request kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		if request.(*kmsg.CreateTopicsRequest).Topics[0].Topic != "impossible" {
			return nil, nil, false
		}
		asked <- struct{}{}
		return nil, errors.New("the connection is lost"), true
	})
	pools := len(r.fetching)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := r.stores.of(ctx, configs.Config{"offsets.storage.topic": "impossible"})
			ended <- err
		}()
		<-asked
		read(1)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	if got := len(r.fetching) - pools; got != 1 {
		t.Errorf("%d connections for one topic", got)
	}
	admin, err := r.adminClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.DeleteTopics(t.Context(), "own"); err != nil {
		t.Fatal(err)
	}
	read(1)
}

// TestAskingTheLeader has a name come whole to the leader, and its words of why not come back.
func TestAskingTheLeader(t *testing.T) {
	mux := http.NewServeMux()
	var asked []string
	mux.HandleFunc("POST /connectors/{name}/tasks", func(rw http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.PathValue("name"))
		if r.PathValue("name") == "refused" {
			rw.WriteHeader(http.StatusConflict)
			_, _ = rw.Write([]byte(`{"error_code":409,"message":"not now"}`))
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	f := newFixture(t)
	w, err := New(Config{Values: f.parse(f.properties("connect.protocol", "compatible"))}, Deps{Log: zap.NewNop(), Level: zap.NewAtomicLevel()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	names := []string{"plain", "a/b", "a b%2F?#", ".."}
	for _, name := range names {
		if err := w.askLeader(t.Context(), http.MethodPost, server.URL, name, "tasks", nil); err != nil && name != ".." {
			t.Errorf("%q: %v", name, err)
		}
	}
	if !slices.Equal(asked, names[:3]) {
		t.Errorf("asked about %q", asked)
	}
	if err := w.askLeader(t.Context(), http.MethodPost, server.URL, "refused", "tasks", nil); err == nil || err.Error() != "the leader answers 409 Conflict: not now" {
		t.Errorf("%v", err)
	}
}
