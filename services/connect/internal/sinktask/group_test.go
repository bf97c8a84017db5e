package sinktask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/plugin"
)

func TestRebalance(t *testing.T) {
	f := newFixture(t, 4)
	other := &sink{}
	connector, _ := serve(t, other)
	var produced []string
	more := func() {
		for p := range int32(4) {
			value := fmt.Sprintf("%d-%d", p, len(produced))
			produced = append(produced, value)
			f.produce(p, value)
		}
	}
	more()
	first := f.run()
	f.has(produced...)
	d := f.deps()
	d.Start, d.Metrics = connector.StartSink, &Metrics{}
	c := f.config()
	c.Number = 1
	second := f.runWith(c, d)
	f.eventually("both have partitions", func() bool {
		return len(other.seen("start")) > 0 && d.Metrics.Partitions.Load() == 2 && f.metrics.Partitions.Load() == 2
	})
	more()
	f.eventually("all is put", func() bool { return len(f.got())+len(other.got()) >= len(produced) })
	second.stop()
	f.eventually("the first has all again", func() bool { return f.metrics.Partitions.Load() == 4 })
	more()
	f.eventually("the rest is put", func() bool { return len(f.got())+len(other.got()) >= len(produced) })
	first.stop()
	all := append(f.got(), other.got()...)
	slices.Sort(all)
	slices.Sort(produced)
	if !slices.Equal(all, produced) {
		t.Errorf("put %v, want each once of %v", all, produced)
	}
	events := strings.Join(f.seen("put", "start", "stop"), "; ")
	if !strings.Contains(events, "precommit") || !strings.Contains(events, "close") {
		t.Errorf("asked for %s", events)
	}
	if f.committed() != "0@3 1@3 2@3 3@3" {
		t.Errorf("committed %s", f.committed())
	}
}

func TestRegex(t *testing.T) {
	f := newFixture(t, 1, "topics.regex", "ord.*", "topics", "")
	f.produce(0, "a")
	r := f.run()
	f.has("a")
	r.stop()
}

func TestGroup(t *testing.T) {
	f := newFixture(t, 1, "consumer.override.group.id", "mine")
	f.produce(0, "a")
	r := f.run()
	f.has("a")
	r.stop()
	if f.committed() != "" {
		t.Error("it is in the group that it would be in by default")
	}
}

// In the protocol consumer brokers assign the partitions.
func TestConsumerProtocol(t *testing.T) {
	for _, assignor := range []string{"uniform", "range"} {
		f := newFixture(t, 1, "consumer.override.group.protocol", "consumer", "consumer.override.group.remote.assignor", assignor)
		var asked atomic.Value
		f.cluster.ControlKey(int16(kmsg.ConsumerGroupHeartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
			if named := req.(*kmsg.ConsumerGroupHeartbeatRequest).ServerAssignor; named != nil {
				asked.Store(*named)
			}
			f.cluster.KeepControl()
			return nil, nil, false
		})
		f.produce(0, "a")
		r := f.run()
		f.has("a")
		r.stop()
		if f.committed() != "0@1" || asked.Load() != assignor {
			t.Errorf("committed %s, assigned by %v", f.committed(), asked.Load())
		}
	}
}

// What no one may read is no topic to wait for.
func TestNotAuthorized(t *testing.T) {
	f := newFixture(t, 1)
	f.cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil, true
	})
	if err := f.run().end(); !errors.Is(err, kerr.GroupAuthorizationFailed) || !strings.Contains(err.Error(), "connect-shop") {
		t.Errorf("ended with %v", err)
	}
}

// A coordinator that is away for a while is waited for.
func TestCoordinatorAway(t *testing.T) {
	f := newFixture(t, 1)
	var times atomic.Int32
	f.cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if times.Add(1) > 2 {
			return nil, nil, false
		}
		f.cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return resp, nil, true
	})
	f.produce(0, "a")
	r := f.run()
	f.has("a")
	r.stop()
}

// A member that the coordinator has thrown out closes what it had without committing, and goes on as a new one.
func TestLost(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(0, "a")
	r := f.run()
	f.has("a")
	f.cluster.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = kerr.UnknownMemberID.Code
		return resp, nil, true
	})
	f.eventually("it is put again", func() bool { return len(f.got()) == 2 })
	r.stop()
	if got := f.seen("put"); !slices.Equal(got, []string{"start", "open orders-0", "close orders-0", "open orders-0", "precommit orders-0@1", "close orders-0", "stop"}) {
		t.Errorf("asked for %v", got)
	}
	if f.committed() != "0@1" {
		t.Errorf("committed %s", f.committed())
	}
}

// What a task wants none of it gets again when it gets the partition again.
func TestLostWhilePaused(t *testing.T) {
	f := newFixture(t, 1)
	var opened atomic.Int32
	f.sink.open = func(c *plugin.SinkContext, partitions []plugin.TopicPartition) error {
		if opened.Add(1) == 1 {
			c.Pause(partitions...)
		}
		return nil
	}
	f.produce(0, "a")
	f.run()
	f.eventually("it is opened", func() bool { return opened.Load() == 1 })
	f.cluster.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = kerr.UnknownMemberID.Code
		return resp, nil, true
	})
	f.has("a")
}

// A task that waits to put a batch again holds up nobody in its group.
func TestRebalanceWhileRetrying(t *testing.T) {
	f := newFixture(t, 2)
	f.worker["offset.flush.interval.ms"] = "600000"
	other := &sink{}
	connector, _ := serve(t, other)
	f.sink.put = func(c *plugin.SinkContext, records []plugin.SinkRecord) error {
		if len(records) > 0 {
			c.NextPut(time.Hour)
			return plugin.Retriable(errors.New("the database is away"))
		}
		return nil
	}
	f.produce(0, "a")
	f.produce(1, "b")
	first := f.run()
	f.eventually("a put", func() bool { return len(f.seen("start", "open")) > 0 })
	d := f.deps()
	d.Start, d.Metrics = connector.StartSink, &Metrics{}
	second := f.runWith(f.config(), d)
	f.eventually("the other puts what it was given", func() bool { return len(other.got()) == 1 })
	first.stop()
	f.eventually("the other has all", func() bool { return len(other.got()) == 2 })
	second.stop()
	if f.committed() != "0@1 1@1" {
		t.Errorf("committed %s", f.committed())
	}
}

// A commit that is asked for while one is under way follows it.
func TestCommitsInARow(t *testing.T) {
	f := newFixture(t, 1, "consumer.override.max.poll.records", "1")
	asked, answer := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	f.cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		if first.CompareAndSwap(false, true) {
			close(asked)
			f.cluster.SleepControl(func() { <-answer })
		}
		return nil, nil, false
	})
	f.sink.put = func(c *plugin.SinkContext, records []plugin.SinkRecord) error {
		if len(records) > 0 {
			c.RequestCommit()
		}
		return nil
	}
	f.produce(0, "a")
	r := f.run()
	<-asked
	f.produce(0, "b")
	f.has("b")
	close(answer)
	f.eventually("the second commit", func() bool { return f.committed() == "0@2" })
	r.stop()
}

// Given up is given up, whether there are brokers to tell or not.
func TestGivenUpWithoutBrokers(t *testing.T) {
	f := newFixture(t, 1)
	f.produce(0, "a")
	r := f.run()
	f.has("a")
	f.cluster.Close()
	begun := time.Now()
	r.kill()
	if err := r.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

// While all brokers are away a task waits.
func TestBrokersAway(t *testing.T) {
	data := kfake.DataDir(t.TempDir())
	f := newFixtureOn(t, newCluster(t, data, kfake.SeedTopics(1, "orders")))
	f.produce(0, "a")
	r := f.run()
	f.has("a")
	_, text, err := net.SplitHostPort(f.cluster.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	f.cluster.Close()
	f.eventually("the task has noticed", func() bool { return f.logs.FilterMessage("cannot read at the moment").Len() > 0 })
	f.cluster = newCluster(t, data, kfake.Ports(port))
	f.connect()
	f.produce(0, "b")
	f.has("b")
	r.stop()
	if f.committed() != "0@2" {
		t.Errorf("committed %s", f.committed())
	}
}
