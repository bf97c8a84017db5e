package controller

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/services/controller/internal/cluster"
)

// TestAnsweredChangesSurviveAKill copies the metadata log while topics are being created, as a kill would leave it, and
// has another controller find every topic whose creation was answered before.
func TestAnsweredChangesSurviveAKill(t *testing.T) {
	w := newWorld(t, nil)
	_, running := w.controller()
	n, node := w.node(1)
	<-n.Ready()
	var mu sync.Mutex
	var answered []string
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for worker := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("t-%d-%d", worker, i)
				mustCreate(t, n, 1, name)
				mu.Lock()
				answered = append(answered, name)
				mu.Unlock()
			}
		})
	}
	filler := 0
	var images []string
	var before [][]string
	for range 5 {
		for { // some more creations
			mu.Lock()
			known := slices.Clone(answered)
			mu.Unlock()
			if len(before) == 0 && len(known) > 20 || len(before) > 0 && len(known) > len(before[len(before)-1])+20 {
				before = append(before, known)
				break
			}
			filler++
			mustCreate(t, n, 1, fmt.Sprint("filler-", filler))
		}
		image := filepath.Join(t.TempDir(), "metadata")
		if err := os.CopyFS(image, os.DirFS(w.dir)); err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	close(stop)
	wg.Wait()
	node.stop()
	running.stop()
	for i, image := range images {
		other := newWorld(t, nil)
		other.dir = image
		_, p := other.controller()
		n, node := other.node(1)
		<-n.Ready()
		for _, name := range before[i] {
			if _, ok := n.Image().Topic(name); !ok {
				t.Errorf("kill %d: topic %s was answered and is gone", i, name)
			}
		}
		node.stop()
		p.stop()
	}
}

func TestConcurrentRequestsAreDecidedOneAfterTheOther(t *testing.T) {
	w := newWorld(t, nil)
	w.controller()
	n, _ := w.node(1)
	<-n.Ready()
	var created, existed int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() { // twenty names, three times each
			resp := forward[*kmsg.CreateTopicsResponse](t, n, createTopics(1, fmt.Sprint("t", i%20)))
			mu.Lock()
			defer mu.Unlock()
			switch resp.Topics[0].ErrorCode {
			case 0:
				created++
			case kerr.TopicAlreadyExists.Code:
				existed++
			}
			if _, ok := n.Image().Topic(fmt.Sprint("t", i%20)); !ok {
				t.Error("answered before the image has it, be it another's")
			}
		})
	}
	wg.Wait()
	if created != 20 || existed != 40 {
		t.Errorf("%d created and %d existed", created, existed)
	}
}

// TestOldNewsOfAClaim signals leadership again that the event loop has seen: the reign goes on, as only it knows what it has
// proposed.
func TestOldNewsOfAClaim(t *testing.T) {
	w := newWorld(t, nil)
	s, controller := w.controller()
	n, node := w.node(1)
	<-n.Ready()
	mustCreate(t, n, 1, "before")
	for i := range 3 { // the channel holds one: the third finds the first taken
		s.machine.changed <- struct{}{}
		mustCreate(t, n, 1, fmt.Sprint("after-", i))
	}
	if active := testutil.ToFloat64(s.metrics.newActive); active != 1 {
		t.Errorf("this controller became the active one %v times, want once", active)
	}
	node.stop()
	controller.stop()
}

func TestProducerIDsAreHandedOutOnce(t *testing.T) {
	w := newWorld(t, nil)
	_, controller := w.controller()
	n, node := w.node(1)
	<-n.Ready()
	next := int64(0)
	for round := range 3 {
		for range 5 {
			first, count, err := n.AllocateProducerIDs(t.Context())
			if err != nil || first < next || count < 1 {
				t.Fatalf("round %d: ids from %d, %d of them, after %d: %v", round, first, count, next-1, err)
			}
			next = first + int64(count)
		}
		controller.stop()
		_, controller = w.controller()
	}
	node.stop()
}

func TestNodeCatchesUpFromASnapshot(t *testing.T) {
	w := newWorld(t, map[string]string{"metadata.log.max.record.bytes.between.snapshots": "2000"})
	_, controller := w.controller()
	n, first := w.node(1)
	<-n.Ready()
	for i := range 300 {
		mustCreate(t, n, 2, fmt.Sprint("t", i))
	}
	first.stop()
	controller.stop() // finishes the snapshot under way
	s, _ := w.controller()
	n, _ = w.node(2)
	<-n.Ready()
	if n.Image().TopicCount() != 300 || n.Image().PartitionCount() != 600 {
		t.Errorf("%d topics with %d partitions", n.Image().TopicCount(), n.Image().PartitionCount())
	}
	resp := s.fetch(&controlpb.FetchRequest{FromOffset: -1})
	if resp.GetSnapshot() == nil {
		t.Fatalf("the log is whole: %d batches", len(resp.GetBatches()))
	}
	if gone := s.fetch(&controlpb.FetchRequest{SnapshotOffset: resp.GetSnapshot().GetOffset() - 1}); gone.GetErrorCode() != int32(kerr.SnapshotNotFound.Code) {
		t.Errorf("a snapshot that is no more: %v", gone)
	}
}

func TestSilentNodeIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		s, controller := w.controller()
		n, running := w.node(1)
		<-n.Ready()
		mustCreate(t, n, 2, "orders")
		c := w.connect("silent")
		reg, err := controlpb.Register.Call(t.Context(), c, &controlpb.RegisterRequest{
			NodeId: 2, Incarnation: make([]byte, 16), Roles: []string{"broker"}, PreviousNodeEpoch: -1,
			Listeners: []*controlpb.Listener{{Name: "PLAINTEXT", Host: "h", Port: 1}}, Features: features(),
		})
		if err != nil || reg.GetErrorCode() != 0 || reg.GetClusterId() != s.Image().ClusterID() || reg.GetSessionTimeoutMs() != 9000 {
			t.Fatalf("register: %v, %v", reg, err)
		}
		beat := &controlpb.HeartbeatRequest{NodeId: 2, NodeEpoch: reg.GetNodeEpoch(), MetadataOffset: reg.GetMetadataOffset()}
		if resp, err := controlpb.Heartbeat.Call(t.Context(), c, beat); err != nil || resp.GetErrorCode() != 0 || resp.GetIsFenced() {
			t.Fatalf("heartbeat: %v, %v", resp, err)
		}
		fenced := func(id int32) bool {
			synctest.Wait()
			node, ok := s.Image().Node(id)
			return !ok || node.Fenced
		}
		if fenced(2) {
			t.Fatal("fenced after its heartbeat")
		}
		time.Sleep(8900 * time.Millisecond)
		if fenced(2) {
			t.Error("fenced before its time")
		}
		time.Sleep(200 * time.Millisecond)
		if !fenced(2) {
			t.Error("not fenced after its time")
		}
		if fenced(1) {
			t.Error("a node with heartbeats was fenced")
		}
		// A new controller gives everybody the whole time anew.
		if resp, err := controlpb.Heartbeat.Call(t.Context(), c, beat); err != nil || resp.GetErrorCode() != 0 {
			t.Fatalf("heartbeat: %v, %v", resp, err)
		}
		controller.stop()
		s, controller = w.controller()
		time.Sleep(8 * time.Second)
		if fenced(2) {
			t.Error("fenced too early by the new controller")
		}
		time.Sleep(2 * time.Second)
		if !fenced(2) || fenced(1) {
			t.Error("the new controller fenced the wrong nodes")
		}
		running.stop()
		if !fenced(1) {
			t.Error("a node that left is not fenced")
		}
		controller.stop()
	})
}

func TestPausedControllerFencesNobody(t *testing.T) {
	w := newWorld(t, nil)
	s, err := New(Config{ID: 1, Dir: w.dir, Static: w.static}, Deps{Bus: w.connect("c")})
	if err != nil {
		t.Fatal(err)
	}
	node := metadata.Node{ID: 2, Epoch: 1, Roles: []string{metadata.RoleBroker}}
	im, _, err := metadata.Empty().Apply(1, []*metadatapb.Record{{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: node.Record()}}})
	if err != nil {
		t.Fatal(err)
	}
	r := &reign{s: s, image: im}
	r.sessions = cluster.NewSessions(im, r.env())
	r.dueMs, _ = r.sessions.NextExpiryMs(im)
	s.started = s.started.Add(-time.Minute) // a minute goes by in no time
	r.expire()                              // would propose to a quorum that is not there
	if next, ok := r.sessions.NextExpiryMs(im); !ok || next <= s.nowMs() {
		t.Errorf("the node's session ends at %d, now is %d", next, s.nowMs())
	}
}

func features() []*controlpb.FeatureRange {
	var all []*controlpb.FeatureRange
	for name, f := range metadata.SupportedFeatures() {
		all = append(all, &controlpb.FeatureRange{Name: name, MinLevel: int32(f.Min), MaxLevel: int32(f.Max)})
	}
	return all
}

func TestDescribeQuorum(t *testing.T) {
	w := newWorld(t, nil)
	s, _ := w.controller()
	n, _ := w.node(5)
	<-n.Ready()
	mustCreate(t, n, 1, "a")
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.SetVersion(2)
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	resp := forward[*kmsg.DescribeQuorumResponse](t, n, req)
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.LeaderID != 1 || p.LeaderEpoch < 1 || p.HighWatermark != s.Image().Offset()+1 {
		t.Errorf("partition: %+v", p)
	}
	if len(p.CurrentVoters) != 1 || p.CurrentVoters[0].ReplicaID != 1 || p.CurrentVoters[0].LogEndOffset != p.HighWatermark || p.CurrentVoters[0].LastCaughtUpTimestamp <= 0 {
		t.Errorf("voters: %+v", p.CurrentVoters)
	}
	if len(p.Observers) != 1 || p.Observers[0].ReplicaID != 5 || p.Observers[0].LogEndOffset < 1 {
		t.Errorf("observers: %+v", p.Observers)
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.controller()
	n, _ := w.node(1)
	<-n.Ready()
	create := createTopics(1, "a")
	for name, c := range map[string]struct {
		key, version int16
		body         []byte
		principal    string
		want         error
	}{
		"cut short":          {19, 7, create.AppendTo(nil)[:3], "User:a", kerr.InvalidRequest},
		"unknown version":    {19, 99, nil, "User:a", kerr.UnsupportedVersion},
		"unknown key":        {3000, 0, nil, "User:a", kerr.UnsupportedVersion},
		"not a controller's": {0, 9, kmsg.NewPtrProduceRequest().AppendTo(nil), "User:a", kerr.UnsupportedVersion},
		"no principal":       {19, 7, create.AppendTo(nil), "nobody", kerr.InvalidRequest},
	} {
		if c.key == 0 {
			req := kmsg.NewPtrProduceRequest()
			req.SetVersion(c.version)
			c.body = req.AppendTo(nil)
		}
		if _, err := n.Forward(t.Context(), c.key, c.version, c.body, c.principal, "", ""); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	c := w.connect("raw")
	reg, err := controlpb.Register.Call(t.Context(), c, &controlpb.RegisterRequest{NodeId: 7, Incarnation: []byte("short"), Roles: []string{"broker"}})
	if err != nil || reg.GetErrorCode() != int32(kerr.InvalidRequest.Code) {
		t.Errorf("registration with a short incarnation: %v, %v", reg, err)
	}
	mustCreate(t, n, 1, "a") // and goes on
}

func TestFaultInADecisionIsItsOwn(t *testing.T) {
	w := newWorld(t, nil)
	s, err := New(Config{ID: 1, Dir: w.dir, Static: w.static}, Deps{Bus: w.connect("c")})
	if err != nil {
		t.Fatal(err)
	}
	var got error
	(&reign{s: s}).guard(request{decide: func() { panic("fault") }, fail: func(err error) { got = err }})
	if !errors.Is(got, kerr.UnknownServerError) {
		t.Errorf("got %v", got)
	}
	if testutil.ToFloat64(s.metrics.faults) != 1 {
		t.Error("not counted")
	}
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t, nil)
	b := w.connect("c")
	for name, c := range map[string]struct {
		cfg  Config
		deps Deps
	}{
		"negative id": {Config{ID: -1, Dir: w.dir, Static: w.static}, Deps{Bus: b}},
		"no folder":   {Config{ID: 1, Static: w.static}, Deps{Bus: b}},
		"no bus":      {Config{ID: 1, Dir: w.dir, Static: w.static}, Deps{}},
	} {
		if _, err := New(c.cfg, c.deps); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s, err := New(Config{ID: 1, Dir: "/dev/null/nowhere", Static: w.static}, Deps{Bus: b})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil {
		t.Error("ran without a disk")
	}
	if s.Healthy() == nil {
		t.Error("healthy without a disk")
	}
}

func TestConfiguredClusterID(t *testing.T) {
	w := newWorld(t, nil)
	b := w.connect("c")
	const id = "MkU3OEVBNTcwNTJENDM2Qk"
	for _, configured := range []string{id, "another"} {
		s, err := New(Config{ID: 1, Dir: w.dir, Static: w.static, ClusterID: configured}, Deps{Bus: b})
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, s.Run)
		n, running := w.node(1)
		<-n.Ready()
		if got := n.Image().ClusterID(); got != id {
			t.Errorf("configured %s, got %s", configured, got)
		}
		running.stop()
		p.stop()
	}
}

func TestMetrics(t *testing.T) {
	w := newWorld(t, nil)
	registry := prometheus.NewPedanticRegistry()
	s, err := New(Config{ID: 1, Dir: w.dir, Static: w.static}, Deps{Bus: w.connect("c"), Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	start(t, s.Run)
	n, _ := w.node(1)
	<-n.Ready()
	mustCreate(t, n, 3, "a", "b")
	want := `
# HELP kafka_controller_kafkacontroller_activebrokercount Nodes that are registered and not fenced.
# TYPE kafka_controller_kafkacontroller_activebrokercount gauge
kafka_controller_kafkacontroller_activebrokercount 1
# HELP kafka_controller_kafkacontroller_activecontrollercount 1 while this controller is the active one.
# TYPE kafka_controller_kafkacontroller_activecontrollercount gauge
kafka_controller_kafkacontroller_activecontrollercount 1
# HELP kafka_controller_kafkacontroller_globalpartitioncount Partitions of the cluster.
# TYPE kafka_controller_kafkacontroller_globalpartitioncount gauge
kafka_controller_kafkacontroller_globalpartitioncount 6
# HELP kafka_controller_kafkacontroller_offlinepartitionscount Partitions without a leader.
# TYPE kafka_controller_kafkacontroller_offlinepartitionscount gauge
kafka_controller_kafkacontroller_offlinepartitionscount 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"kafka_controller_kafkacontroller_activebrokercount", "kafka_controller_kafkacontroller_activecontrollercount",
		"kafka_controller_kafkacontroller_globalpartitioncount", "kafka_controller_kafkacontroller_offlinepartitionscount"); err != nil {
		t.Error(err)
	}
	if err := s.Healthy(); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil {
		t.Error(err)
	} else if len(problems) > 0 {
		t.Logf("Kafka's names are as they are: %d remarks", len(problems))
	}
}

func TestLargeRequests(t *testing.T) {
	w := newWorld(t, nil)
	_, controller := w.controller()
	n, running := w.node(1)
	<-n.Ready()
	began := time.Now()
	mustCreate(t, n, 10_000, "wide")
	t.Logf("one topic of 10,000 partitions: %v", time.Since(began))
	if n.Image().PartitionCount() != 10_000 {
		t.Errorf("%d partitions", n.Image().PartitionCount())
	}
	began = time.Now()
	for i := range 1000 {
		mustCreate(t, n, 1, fmt.Sprint("narrow-", i))
	}
	t.Logf("1,000 topics one after the other: %v", time.Since(began))
	fresh, other := w.node(2)
	<-fresh.Ready()
	if fresh.Image().TopicCount() != 1001 {
		t.Errorf("%d topics at another node", fresh.Image().TopicCount())
	}
	other.stop()
	running.stop()
	controller.stop()

	began = time.Now()
	w.controller()
	n, running = w.node(1)
	<-n.Ready()
	t.Logf("in service again with all of them: %v", time.Since(began))
	if n.Image().PartitionCount() != 11_000 {
		t.Errorf("%d partitions after a restart", n.Image().PartitionCount())
	}
	running.stop()
}

// BenchmarkCreateTopic is the time from a node's request to its own image with the topic, fsync included.
func BenchmarkCreateTopic(b *testing.B) {
	w := newWorld(b, nil)
	w.controller()
	n, _ := w.node(1)
	<-n.Ready()
	i := 0
	for b.Loop() {
		mustCreate(b, n, 1, fmt.Sprint("topic-", i))
		i++
	}
}

// BenchmarkRestart is the time from an ended controller and node to the node in service again, with 10,000 partitions.
func BenchmarkRestart(b *testing.B) {
	w := newWorld(b, nil)
	_, controller := w.controller()
	n, running := w.node(1)
	<-n.Ready()
	mustCreate(b, n, 10_000, "wide")
	for b.Loop() {
		running.stop()
		controller.stop()
		_, controller = w.controller()
		n, running = w.node(1)
		<-n.Ready()
	}
	running.stop()
}
