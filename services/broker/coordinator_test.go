package broker

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap/zaptest"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/coordinator/shardlog"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/record"
)

// announce adds the broker to the image, so that others find it.
func (b *testBroker) announce() {
	b.t.Helper()
	host, portText, err := net.SplitHostPort(b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		b.t.Fatal(err)
	}
	node := metadata.Node{ID: testNode, Incarnation: [16]byte{1}, Listeners: []metadata.Listener{{Name: "PLAINTEXT", Host: host, Port: uint16(port)}}}
	b.apply(&metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: node.Record()}})
}

// register is a machine for tests: keys and values.
type register struct {
	values map[string]string
	loaded chan int // gets the number of values
}

func (m *register) Replay(_ coordinator.Producer, r coordinator.Record) error {
	m.values[string(r.Key)] = string(r.Value)
	return nil
}

func (m *register) ReplayMarker(coordinator.Producer, record.Marker) error { return nil }

func (m *register) Loaded(time.Time) coordinator.Step {
	m.loaded <- len(m.values)
	return coordinator.Step{Producer: coordinator.NoProducer}
}

func (m *register) Tick(time.Time) coordinator.Step {
	return coordinator.Step{Producer: coordinator.NoProducer}
}

func (m *register) NextTick() time.Time { return time.Time{} }

// owner is a coordinator's node.
type owner struct {
	t      *testing.T
	r      *coordinator.Runtime[*register]
	loaded chan int
}

func (b *testBroker) startOwner(t *testing.T, id int32) *owner {
	t.Helper()
	im := b.image
	log := shardlog.New(shardlog.Config{Topic: offsets, ClientID: fmt.Sprint("owner", id)}, func() *metadata.Image { return im })
	o := &owner{t: t, loaded: make(chan int, 10)}
	r, err := coordinator.New(coordinator.Config{Name: "test", NodeID: id, LoadBytes: 2000}, coordinator.Deps{Log: log, Logger: zaptest.NewLogger(t)},
		func(int32) *register { return &register{values: map[string]string{}, loaded: o.loaded} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); log.Close() })
	o.r = r
	return o
}

// own waits until shard 0 is loaded, and returns what it has.
func (o *owner) own(epoch int32) int {
	o.t.Helper()
	o.r.Own(0, epoch)
	select {
	case n := <-o.loaded:
		return n
	case <-time.After(20 * time.Second):
		o.t.Fatal("the shard is not loaded")
		return 0
	}
}

// put writes values, all under way at once, and returns the outcomes by value.
func (o *owner) put(first, end int) map[int]error {
	var mu sync.Mutex
	var all sync.WaitGroup
	got := map[int]error{}
	for i := first; i < end; i++ {
		all.Add(1)
		value := strings.Repeat(strconv.Itoa(i), 20)
		o.r.Do(trace.SpanContext{}, 0, func(m *register, _ time.Time, t coordinator.Ticket) coordinator.Step {
			r := coordinator.Record{Key: []byte(strconv.Itoa(i)), Value: []byte(value)}
			if err := m.Replay(coordinator.NoProducer, r); err != nil {
				panic(err)
			}
			return coordinator.Step{Records: []coordinator.Record{r}, Producer: coordinator.NoProducer, Answers: []coordinator.Answer{{Ticket: t}}}
		}, func(_ any, err error) {
			mu.Lock()
			got[i] = err
			mu.Unlock()
			all.Done()
		})
	}
	all.Wait()
	return got
}

func (o *owner) values() (copied map[string]string) {
	o.r.Run(trace.SpanContext{}, 0, func(m *register, _ time.Time) coordinator.Step {
		copied = maps.Clone(m.values)
		return coordinator.Step{Producer: coordinator.NoProducer}
	})
	return copied
}

// Two owners follow each other on a real broker; the first is not told, as if it had been paused.
func TestAnOwnerWhoWasReplacedChangesNothing(t *testing.T) {
	b := startBroker(t)
	b.announce()
	id := b.createTopic(offsets, 1, "cleanup.policy", "compact", "segment.bytes", "16384")
	b.giveShard(id, 0, 1)
	first := b.startOwner(t, 11)
	if n := first.own(1); n != 0 {
		t.Errorf("an empty log has %d values", n)
	}
	for from := 0; from < 500; from += 100 {
		for i, err := range first.put(from, from+100) {
			if err != nil {
				t.Fatalf("value %d: %v", i, err)
			}
		}
	}

	b.giveShard(id, 0, 2)
	second := b.startOwner(t, 12)
	if n := second.own(2); n != 500 {
		t.Errorf("the next owner has loaded %d values, want 500", n)
	}
	for i, err := range first.put(500, 510) {
		if !errors.Is(err, kerr.NotCoordinator) {
			t.Errorf("value %d of the first owner: %v", i, err)
		}
	}
	if _, ok := first.r.Epoch(0); ok {
		t.Error("the first owner believes that it still is one")
	}
	second.put(600, 700)

	b.giveShard(id, 0, 3)
	if n := first.own(3); n != 600 {
		t.Errorf("the first owner has loaded %d values, want 600", n)
	}
	if got, want := first.values(), second.values(); !maps.Equal(got, want) {
		t.Errorf("the log has %d values, its last owner had %d", len(got), len(want))
	}
}
