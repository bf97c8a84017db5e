package coordinator

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/record"
)

var (
	firstSeed = flag.Uint64("seed", 1, "seed of the first run of TestNothingAnsweredIsLost")
	runs      = flag.Uint64("runs", 200, "runs of TestNothingAnsweredIsLost")
)

const (
	simShards = 3
	simKeys   = 4
	simSteps  = 400
)

// sim is two runtimes that take shards from each other, over a log that fails in every way it may.
type sim struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand // of the driver
	log   *memLog
	nodes [2]*Runtime[*kv]
	owner [simShards]int

	value  int                       // the last one written, to any key
	acked  [simShards]map[string]int // newest value that an answer has confirmed
	asked  int
	told   int
	doomed bool // the log takes nothing
}

// TestNothingAnsweredIsLost has two owners of shards that fail, pause, and take over from each other.
func TestNothingAnsweredIsLost(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+*runs; seed++ {
		synctest.Test(t, func(t *testing.T) {
			runSim(t, seed)
			if t.Failed() {
				t.Logf("repeat it with -seed %d -runs 1", seed)
			}
		})
	}
}

func runSim(t *testing.T, seed uint64) {
	s := &sim{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), log: newMemLog()}
	faults := rand.New(rand.NewPCG(seed, 1))
	s.log.plan = func(c memCall) fault { return s.fault(faults, c) }
	for i := range s.nodes {
		r, err := New(Config{Name: "group", NodeID: int32(i), MaxBatchBytes: 300, LoadBytes: 1000, MaxPendingBytes: 2000},
			Deps{Log: s.log, Logger: zap.NewNop(), Metrics: prometheus.NewRegistry()}, newKV)
		if err != nil {
			t.Fatal(err)
		}
		s.nodes[i] = r
	}
	for shard := range simShards {
		s.acked[shard] = map[string]int{}
		s.move(int32(shard))
	}
	for range simSteps {
		s.step()
	}
	s.settle()
}

func (s *sim) fault(rng *rand.Rand, c memCall) fault {
	ms := func(most int) time.Duration { return time.Duration(rng.IntN(most)) * time.Millisecond }
	err := []error{errors.New("connection reset"), kerr.RequestTimedOut, kerr.NotLeaderForPartition, kerr.NotEnoughReplicasAfterAppend}[rng.IntN(4)]
	if s.doomed && c.batch != "" {
		return fault{err: err, wait: ms(100)}
	}
	switch rng.IntN(20) {
	case 0, 1:
		return fault{err: err, wait: ms(50)}
	case 2:
		return fault{err: err, landed: true, wait: ms(50)}
	case 3:
		return fault{err: err, late: ms(8000)}
	case 4:
		return fault{wait: ms(6000)}
	case 5:
		if c.batch != "" && !isFence(c) && rng.IntN(5) == 0 {
			return fault{err: kerr.MessageTooLarge}
		}
	}
	return fault{wait: ms(20)}
}

func (s *sim) step() {
	shard := int32(s.rng.IntN(simShards))
	node := s.owner[shard]
	if s.rng.IntN(10) == 0 {
		node = 1 - node
	}
	switch n := s.rng.IntN(100); {
	case n < 55:
		s.write(node, shard, NoProducer)
	case n < 60:
		s.write(node, shard, Producer{int64(s.rng.IntN(2)), 0})
	case n < 75:
		s.read(node, shard)
	case n < 78:
		s.request(node, shard, park, func(any, error) {})
	case n < 80:
		s.nodes[node].Run(trace.SpanContext{}, shard, release("released"))
	case n < 83:
		s.move(shard)
	case n < 86:
		s.log.elect(shard)
	case n < 87:
		s.nodes[node].stalls.pulse.Add(-2 * int64(stallAfter))
	case n < 88:
		s.log.mu.Lock()
		s.doomed = !s.doomed
		s.log.mu.Unlock()
	case n < 90:
		s.request(node, shard, func(m *kv, _ time.Time, _ Ticket) Step {
			m.data["half"] = "done"
			panic("half done")
		}, func(any, error) {})
	default:
		time.Sleep(time.Duration(s.rng.IntN(400)) * time.Millisecond)
	}
}

// request counts answers: each request has one.
func (s *sim) request(node int, shard int32, op op, done func(any, error)) {
	s.asked++
	told := false
	s.nodes[node].Do(trace.SpanContext{}, shard, op, func(response any, err error) {
		if told {
			s.t.Errorf("a request is answered twice: %v, %v", response, err)
		}
		told = true
		s.log.mu.Lock()
		s.told++
		s.log.mu.Unlock()
		done(response, err)
	})
}

func (s *sim) key() string { return strconv.Itoa(s.rng.IntN(simKeys)) }

func (s *sim) write(node int, shard int32, p Producer) {
	s.value++
	key, value := s.key(), s.value
	s.request(node, shard, putIn(p, key, strconv.Itoa(value)), func(_ any, err error) {
		if err == nil && p == NoProducer {
			s.log.mu.Lock()
			defer s.log.mu.Unlock()
			s.acked[shard][key] = max(s.acked[shard][key], value)
		}
	})
}

// read asks an owner that is in office for a key, and checks that it knows what has been answered before.
func (s *sim) read(node int, shard int32) {
	key := s.key()
	s.log.mu.Lock()
	current, floor := s.log.part(shard).epoch, s.acked[shard][key]
	s.log.mu.Unlock()
	epoch, ok := s.nodes[node].Epoch(shard)
	s.request(node, shard, get(key), func(response any, err error) {
		if err != nil || !ok || epoch != current {
			return
		}
		if got, _ := strconv.Atoi(response.(string)); got < floor {
			s.t.Errorf("shard %d key %s is read as %d, after %d was confirmed", shard, key, got, floor)
		}
	})
}

// move gives the shard to the other node. Both learn of it at some time, in any order, the old owner perhaps never.
func (s *sim) move(shard int32) {
	from := s.owner[shard]
	to := 1 - from
	s.owner[shard] = to
	epoch := s.log.move(shard)
	soon := func(f func()) {
		d := time.Duration(s.rng.IntN(3000)) * time.Millisecond
		s.log.landing.Go(func() {
			timer := time.NewTimer(d)
			<-timer.C
			f()
		})
	}
	soon(func() { s.nodes[to].Own(shard, epoch) })
	if s.rng.IntN(3) > 0 {
		soon(func() { s.nodes[from].Release(shard, epoch) })
	}
}

// settle heals everything and compares owners with the log.
func (s *sim) settle() {
	s.log.setPlan(nil)
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	for shard := range int32(simShards) {
		s.checkLog(shard)
		live := s.state(s.owner[shard], shard)
		s.move(shard)
		time.Sleep(time.Minute)
		loaded := s.state(s.owner[shard], shard)
		if live == nil || loaded == nil || !reflect.DeepEqual(live.data, loaded.data) || !reflect.DeepEqual(live.pending, loaded.pending) {
			s.t.Errorf("shard %d: the owner has %+v, its log says %+v", shard, live, loaded)
			continue
		}
		for key, value := range s.acked[shard] {
			if got, _ := strconv.Atoi(loaded.data[key]); got < value {
				s.t.Errorf("shard %d key %s is %d after all, %d was confirmed", shard, key, got, value)
			}
		}
	}
	for _, r := range s.nodes {
		r.Close()
	}
	s.log.landing.Wait()
	if s.told != s.asked {
		s.t.Errorf("%d of %d requests were answered", s.told, s.asked)
	}
}

// state copies what must survive of a node's machine; nil when it does not run.
func (s *sim) state(node int, shard int32) (copied *kv) {
	s.nodes[node].Run(trace.SpanContext{}, shard, func(m *kv, _ time.Time) Step {
		copied = &kv{data: maps.Clone(m.data), pending: maps.Clone(m.pending)}
		return Step{Producer: NoProducer}
	})
	return copied
}

// checkLog checks that epochs follow each other, each begun by its fence, and that no write was overtaken.
func (s *sim) checkLog(shard int32) {
	fenced, last, before := int32(0), map[string]int{}, ""
	for _, b := range s.log.part(shard).batches {
		same := string(b.Batch[record.CRCAt:]) == before
		before = string(b.Batch[record.CRCAt:])
		if same {
			continue // the answer was lost with the leader, and it was sent again
		}
		if b.IsControl() {
			if b.epoch < fenced {
				s.t.Errorf("shard %d: fence of epoch %d after %d", shard, b.epoch, fenced)
			}
			fenced = b.epoch
			continue
		}
		if b.epoch != fenced {
			s.t.Errorf("shard %d: a batch of epoch %d after the fence of %d", shard, b.epoch, fenced)
		}
		for r, err := range b.Records(0) {
			if err != nil {
				s.t.Fatal(err)
			}
			key := fmt.Sprint(b.ProducerID(), string(r.Key))
			value, _ := strconv.Atoi(string(r.Value))
			if value < last[key] {
				s.t.Errorf("shard %d: key %s is %d after %d", shard, key, value, last[key])
			}
			last[key] = value
		}
	}
}
