package node

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// simulate runs a test on a clock of its own: what is to happen at once must not take any of its time.
func simulate(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func TestReadyAtOnce(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.fake.up()
		began := time.Now()
		r.run()
		<-r.node.Ready()
		if took := time.Since(began); took != 0 {
			t.Errorf("ready after %v", took)
		}
		self, ok := r.node.Image().Node(4)
		if !ok || self.Fenced || self.Epoch != r.node.Epoch() || r.node.Image().ControllerID() != 9 {
			t.Errorf("image has %+v, the node epoch %d", self, r.node.Epoch())
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestInService follows a node from before its registration to the loss of it.
func TestInService(t *testing.T) {
	simulate(t, func(t *testing.T) {
		lines, seen := observer.New(zap.DebugLevel)
		r := newRig(t, nil)
		r.node.log = zap.New(lines)
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			if err := r.node.InService(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("in service: %v, want %q", err, want)
			}
		}
		expect("not registered")
		r.fake.refusals = []*kerr.Error{kerr.DuplicateBrokerRegistration}
		r.fake.up()
		r.run()
		<-r.node.Ready()
		expect("")

		r.fake.mu.Lock()
		self, _ := r.fake.image.Node(4)
		r.fake.change(self, &metadatapb.BrokerRegistrationChangeRecord{Fenced: proto.Bool(true)})
		r.fake.mu.Unlock()
		expect("fenced")
		time.Sleep(2 * time.Second) // to the next heartbeat
		expect("")

		r.fake.mu.Lock()
		r.fake.stale = true
		r.fake.refusals = []*kerr.Error{kerr.NotController}
		r.fake.mu.Unlock()
		time.Sleep(3 * time.Second)
		expect("")
		if err := r.end(); err != nil {
			t.Error(err)
		}
		for _, line := range seen.All() {
			if _, twice := line.ContextMap()["node"]; twice {
				t.Errorf("%q says which node speaks, as every line of the process does", line.Message)
			}
		}
		if seen.FilterMessage("registered").Len() != 2 {
			t.Errorf("registered %d times, want 2", seen.FilterMessage("registered").Len())
		}
	})
}

func TestWaitsForTheController(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.run()
		time.Sleep(time.Minute)
		if r.ready() {
			t.Fatal("ready without a controller")
		}
		r.fake.up() // tells of itself
		synctest.Wait()
		if !r.ready() {
			t.Error("not ready once there is a controller")
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestHeartbeats(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.fake.up()
		r.run()
		<-r.node.Ready()
		synctest.Wait()
		_, _, fetchedBefore := r.fake.counts()
		time.Sleep(time.Minute + time.Second)
		_, beats, fetches := r.fake.counts()
		if beats != 31 { // broker.heartbeat.interval.ms is 2 s
			t.Errorf("%d heartbeats in a minute", beats)
		}
		if fetches != fetchedBefore {
			t.Errorf("%d fetches while all pushes arrive", fetches-fetchedBefore)
		}

		r.fake.down()
		time.Sleep(time.Minute)
		if got, _, _ := r.fake.counts(); got != 1 {
			t.Errorf("%d registrations", got)
		}
		r.fake.up()
		synctest.Wait()
		if _, after, _ := r.fake.counts(); after != beats+1 {
			t.Errorf("%d heartbeats when the controller returns", after-beats)
		}

		r.fake.mu.Lock()
		r.fake.stale = true
		r.fake.mu.Unlock()
		old := r.node.Epoch()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if registers, _, _ := r.fake.counts(); registers != 2 || r.node.Epoch() == old {
			t.Errorf("%d registrations after the first was lost, epoch %d after %d", registers, r.node.Epoch(), old)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestRegistration(t *testing.T) {
	for name, c := range map[string]struct {
		refusals []*kerr.Error
		want     error // of Run
		takes    time.Duration
	}{
		"taken for a while":  {slices.Repeat([]*kerr.Error{kerr.DuplicateBrokerRegistration}, 5), nil, 2 * time.Second},
		"taken for good":     {slices.Repeat([]*kerr.Error{kerr.DuplicateBrokerRegistration}, 500), kerr.DuplicateBrokerRegistration, 62 * time.Second},
		"of another cluster": {[]*kerr.Error{kerr.InconsistentClusterID}, kerr.InconsistentClusterID, 0},
		"new controller":     {[]*kerr.Error{kerr.NotController}, nil, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T) {
				r := newRig(t, func(c *Config) {
					c.ClusterID, c.Rack = "mine", "r1"
					c.AdvertisedListeners = []metadata.Listener{{Name: "L", Host: "h", Port: 65535, SecurityProtocol: 3}}
					c.LogDirIDs = [][16]byte{{1}, {2}}
				})
				r.fake.refusals = c.refusals
				r.fake.up()
				began := time.Now()
				r.run()
				if c.want != nil {
					if err := <-r.done; !errors.Is(err, c.want) {
						t.Errorf("ended with %v", err)
					}
				} else {
					<-r.node.Ready()
					if err := r.end(); err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(began); took > c.takes {
					t.Errorf("took %v", took)
				}
				req := r.fake.registers[0]
				if req.GetClusterId() != "mine" || req.GetRack() != "r1" || len(req.GetLogDirs()) != 2 || req.GetListeners()[0].GetPort() != 65535 ||
					req.GetPreviousNodeEpoch() != -1 || len(req.GetIncarnation()) != 16 || len(req.GetFeatures()) != len(metadata.SupportedFeatures()) {
					t.Errorf("registered with %v", req)
				}
			})
		})
	}
}

func TestLostPushes(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.fake.up()
		r.run()
		<-r.node.Ready()
		synctest.Wait()

		r.fake.setMute(true)
		r.fake.commit(topic("a"))
		r.fake.commit(topic("b"))
		r.fake.setMute(false)
		synctest.Wait()
		r.hasTopics()
		r.fake.commit(topic("c")) // shows the gap
		synctest.Wait()
		r.hasTopics("a", "b", "c")

		r.fake.setMute(true)
		r.fake.commit(topic("d")) // nothing comes after it: the next heartbeat tells
		time.Sleep(2*time.Second + pushGrace)
		synctest.Wait()
		r.hasTopics("a", "b", "c", "d")

		last := r.fake.commit(topic("e"))
		began := time.Now()
		if err := r.node.AwaitOffset(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > pushGrace {
			t.Errorf("an offset that is waited for took %v", took)
		}
		r.hasTopics("a", "b", "c", "d", "e")
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestPushesThatAreNotInOrder has the stream of an old leader overlap that of a new one.
func TestPushesThatAreNotInOrder(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.fake.up()
		var seen []int64
		r.node.OnUpdate(func(im *metadata.Image, d *metadata.Delta) {
			if im.Offset() != d.Offset || im.Offset() <= r.node.Image().Offset() {
				t.Errorf("image at %d with delta at %d after %d", im.Offset(), d.Offset, r.node.Image().Offset())
			}
			seen = append(seen, d.Offset)
		})
		r.run()
		<-r.node.Ready()
		for _, name := range names("t", 20) {
			r.fake.commit(topic(name))
		}
		synctest.Wait()
		r.fake.mu.Lock()
		log := slices.Clone(r.fake.log)
		r.fake.mu.Unlock()
		for i := range log { // all once more
			var prev int64 = -1
			if i > 0 {
				prev = log[i-1].offset
			}
			if err := r.fake.conn.Push(controlpb.MetadataStream, updateOf(prev, log[i])); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		r.hasTopics(names("t", 20)...)
		if len(seen) != len(log) || !slices.IsSorted(seen) {
			t.Errorf("%d updates of %d batches: %v", len(seen), len(log), seen)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestCatchesUpByBatchesAndSnapshots(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		t.Run(fmt.Sprint("snapshot ", compacted), func(t *testing.T) {
			simulate(t, func(t *testing.T) {
				r := newRig(t, nil)
				for _, name := range names("t", 50) {
					r.fake.commit(topic(name))
				}
				if compacted {
					r.fake.compact = r.fake.image.Offset()
				}
				var first *metadata.Delta
				r.node.OnUpdate(func(_ *metadata.Image, d *metadata.Delta) {
					if first == nil {
						first = d
					}
				})
				r.fake.up()
				r.run()
				<-r.node.Ready()
				r.hasTopics(names("t", 50)...)
				if n := len(first.ChangedTopics); compacted && n != 50 || !compacted && n != 1 {
					t.Errorf("the first update has %d topics", n)
				}
				r.fake.commit(topic("u"))
				synctest.Wait()
				r.hasTopics(append(names("t", 50), "u")...)
				if err := r.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestSnapshotThatIsReplacedMeanwhile(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.fake.commit(topic("a"))
		r.fake.compact = r.fake.image.Offset()
		spoiled := 0
		r.fake.chunk = func(resp *controlpb.FetchResponse) {
			if resp.GetSnapshot().GetPosition() > 0 && spoiled < 3 {
				spoiled++
				*resp = controlpb.FetchResponse{ErrorCode: int32(kerr.SnapshotNotFound.Code)}
			}
		}
		r.fake.up()
		r.run()
		<-r.node.Ready()
		r.hasTopics("a")
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestUnreadableMetadataEndsTheNode(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.fake.up()
		r.run()
		<-r.node.Ready()
		r.fake.mu.Lock()
		at := r.fake.image.Offset()
		r.fake.mu.Unlock()
		if err := r.fake.conn.Push(controlpb.MetadataStream, updateOf(at, batch{at + 1, []byte("\x05gibberish")})); err != nil {
			t.Fatal(err)
		}
		if err := <-r.done; !errors.Is(err, errUnreadable) {
			t.Errorf("ended with %v", err)
		}
		if err := r.node.AwaitOffset(t.Context(), at+1); !errors.Is(err, ErrEnded) {
			t.Errorf("waiting for an ended node: %v", err)
		}
	})
}

func TestForward(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		tries := 0
		r.fake.admin = func(req *controlpb.AdminRequest) *controlpb.AdminResponse {
			if tries++; tries < 3 {
				return &controlpb.AdminResponse{ErrorCode: int32(kerr.NotController.Code)}
			}
			if req.GetApiKey() != 19 || req.GetApiVersion() != 7 || req.GetPrincipal() != "User:p" || req.GetClientId() != "c" || req.GetClientHost() != "h" {
				t.Errorf("forwarded %v", req)
			}
			r.fake.setMute(true)
			offset := r.fake.commit(topic(string(req.GetBody())))
			return &controlpb.AdminResponse{Body: []byte("done"), MetadataOffset: offset}
		}
		r.run()
		began := time.Now()
		go func() {
			time.Sleep(5 * time.Second)
			r.fake.up()
		}()
		body, err := r.node.Forward(t.Context(), 19, 7, []byte("new"), "User:p", "c", "h")
		if err != nil || string(body) != "done" || tries != 3 {
			t.Errorf("got %q, %v after %d tries", body, err, tries)
		}
		r.hasTopics("new") // the answer comes after the change
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("took %v", took)
		}
		first, count, err := r.node.AllocateProducerIDs(t.Context())
		if err != nil || first != r.node.Epoch() || count != 1000 {
			t.Errorf("producer ids: %d, %d, %v", first, count, err)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestForwardGivesUpALostController has a controller take a request and never answer it, and another become active.
func TestForwardGivesUpALostController(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.fake.up()
		r.run()
		<-r.node.Ready()
		r.fake.down()
		lost := make(chan struct{})
		dead, err := controlpb.Admin.Serve(r.fake.conn, func(context.Context, *controlpb.AdminRequest, func(*controlpb.AdminResponse, error)) {
			close(lost)
		})
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		r.fake.admin = func(*controlpb.AdminRequest) *controlpb.AdminResponse {
			asked++
			return &controlpb.AdminResponse{Body: []byte("done")}
		}
		go func() {
			<-lost
			dead.Close()
			r.fake.up()
		}()
		began := time.Now()
		body, err := r.node.Forward(t.Context(), 19, 7, nil, "User:p", "c", "h")
		if err != nil || string(body) != "done" || asked != 1 {
			t.Errorf("got %q, %v after %d answers", body, err, asked)
		}
		if took := time.Since(began); took < successorGrace || took > successorGrace+time.Second {
			t.Errorf("took %v", took)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestMovesToAServerThatHasAController starts a node at a server of the bus that is cut off from the one with the controller.
func TestMovesToAServerThatHasAController(t *testing.T) {
	serve := func(name string, port int) *bus.Server {
		s, err := bus.StartServer(bus.ServerConfig{Name: name, Host: "127.0.0.1", Port: port}, bus.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	lonely, other := serve("lonely", -1), serve("other", -1)
	defer lonely.Close()
	otherURL := other.URL()
	u, err := url.Parse(otherURL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	other.Close() // so that the node begins at the lonely one
	c, err := bus.Connect(bus.Config{URLs: []string{otherURL, lonely.URL()}}, bus.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	other = serve("other", port)
	defer other.Close()
	f := newFake(t, other)
	defer f.conn.Close()
	f.up()
	static, err := config.FromMap(configkeys.Broker(), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := New(Config{ID: 4, Roles: []string{metadata.RoleBroker}, Static: static}, Deps{Bus: c})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	<-n.Ready()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestForwardFails(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.run()
		forward := func(ctx context.Context) (error, time.Duration) {
			began := time.Now()
			_, err := r.node.Forward(ctx, 19, 7, nil, "User:p", "", "")
			return err, time.Since(began)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err, took := forward(ctx); !errors.Is(err, kerr.RequestTimedOut) || took != 3*time.Second {
			t.Errorf("without a controller: %v after %v", err, took)
		}
		if err, took := forward(t.Context()); !errors.Is(err, kerr.RequestTimedOut) || took != forwardTimeout {
			t.Errorf("without a deadline: %v after %v", err, took)
		}
		r.fake.admin = func(*controlpb.AdminRequest) *controlpb.AdminResponse {
			return &controlpb.AdminResponse{ErrorCode: int32(kerr.InvalidRequest.Code), ErrorMessage: "nonsense"}
		}
		r.fake.up()
		if err, took := forward(t.Context()); !errors.Is(err, kerr.InvalidRequest) || took != 0 {
			t.Errorf("refused: %v after %v", err, took)
		}
		r.fake.down()
		ended := make(chan error, 1)
		go func() { err, _ := forward(context.Background()); ended <- err }()
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, kerr.RequestTimedOut) {
			t.Errorf("ended under way: %v", err)
		}
	})
}

func TestImageStaysWithoutController(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.fake.up()
		r.run()
		<-r.node.Ready()
		r.fake.commit(topic("a"))
		synctest.Wait()
		r.fake.down()
		time.Sleep(10 * time.Minute)
		r.hasTopics("a")
		if self, ok := r.node.Image().Node(4); !ok || self.Fenced {
			t.Error("the node fenced itself")
		}
		began := time.Now()
		if err := r.end(); err != nil || time.Since(began) != leaveTimeout {
			t.Errorf("ended after %v with %v", time.Since(began), err)
		}
	})
}

func TestDrain(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.fake.up()
		r.run()
		<-r.node.Ready()
		time.Sleep(500 * time.Millisecond) // between two heartbeats
		began := time.Now()
		if err := r.node.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*firstDrainWait {
			t.Errorf("took %v", took)
		}
		if self, _ := r.node.Image().Node(4); !self.InControlledShutdown || !r.node.Draining() {
			t.Error("not in controlled shutdown")
		}
		_, beats, _ := r.fake.counts()
		time.Sleep(time.Minute)
		if _, later, _ := r.fake.counts(); later != beats {
			t.Errorf("%d heartbeats after the controller let the node go", later-beats)
		}
		r.fake.down()
		began = time.Now()
		if err := r.end(); err != nil || time.Since(began) != 0 {
			t.Errorf("ended after %v with %v", time.Since(began), err)
		}
	})
}

func TestDrainWithoutController(t *testing.T) {
	simulate(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.fake.up()
		r.run()
		<-r.node.Ready()
		r.fake.down()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.node.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		began := time.Now()
		if err := r.end(); err != nil || time.Since(began) != 0 { // it has been waited for already
			t.Errorf("ended after %v with %v", time.Since(began), err)
		}
	})
}
