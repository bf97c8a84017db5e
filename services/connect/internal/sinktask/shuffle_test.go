package sinktask

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

// store is what sinks write to: what they have flushed is safe, what they hold is gone when they are killed.
type store struct {
	mu   sync.Mutex
	safe map[string]bool
	rng  *rand.Rand
	// calls are those of the tasks.
	calls int
}

func (s *store) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// chance says yes once in n times.
func (s *store) chance(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.rng.IntN(n) == 0
}

func (s *store) has(values []string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, v := range values {
		if s.safe[v] {
			n++
		}
	}
	return n
}

func (s *store) Info() plugin.Info                { return plugin.Info{Name: "store", Version: "1"} }
func (s *store) Definition() configdef.Definition { return nil }
func (s *store) NewSinkTask() plugin.SinkTask {
	return &writer{store: s, held: map[plugin.TopicPartition][]plugin.SinkRecord{}}
}
func (s *store) TaskConfigs(context.Context, map[string]string, int) ([]map[string]string, error) {
	return nil, errors.New("not asked for here")
}

// writer holds what is put until it is asked for what is safe. Now and then it can neither take nor flush anything.
type writer struct {
	*store
	held map[plugin.TopicPartition][]plugin.SinkRecord
}

func (w *writer) Start(context.Context, *plugin.SinkContext, map[string]string) error {
	return nil
}

func (w *writer) Put(_ context.Context, records []plugin.SinkRecord) error {
	if w.chance(10) {
		return plugin.Retriable(errors.New("busy"))
	}
	for _, r := range records {
		w.held[r.Original] = append(w.held[r.Original], r)
	}
	return nil
}

func (w *writer) PreCommit(_ context.Context, offsets map[plugin.TopicPartition]int64) (map[plugin.TopicPartition]int64, error) {
	if w.chance(10) {
		for p := range offsets {
			delete(w.held, p) // it is put again
		}
		return nil, errors.New("the disk is full")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, offset := range offsets {
		keep := w.held[p]
		if len(keep) > 0 && w.rng.IntN(3) == 0 { // not all of it
			offset = keep[len(keep)/2].Offset
			offsets[p] = offset
		}
		for len(keep) > 0 && keep[0].Offset < offset {
			w.safe[fmt.Sprint(keep[0].Value.V)] = true
			keep = keep[1:]
		}
		w.held[p] = keep
	}
	return offsets, nil
}

func (w *writer) Open(context.Context, []plugin.TopicPartition) error { return nil }

func (w *writer) Close(_ context.Context, partitions []plugin.TopicPartition) error {
	for _, p := range partitions {
		delete(w.held, p)
	}
	return nil
}

func (w *writer) Stop() error { return nil }

// Tasks of a connector come, go, pause and are killed, and the connector fails now and then: in the end all records are safe.
func TestShuffle(t *testing.T) {
	const partitions, steps, most = 6, 60, 3
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := newFixture(t, partitions, "consumer.override.max.poll.records", "7")
			f.worker["offset.flush.interval.ms"] = "15"
			s := &store{safe: map[string]bool{}, rng: rand.New(rand.NewPCG(seed, 1))}
			f.connector, _ = serve(t, s)
			rng := rand.New(rand.NewPCG(seed, 2))
			var produced []string
			var tasks []*running
			for step := range steps {
				for range rng.IntN(20) {
					value := fmt.Sprintf("%d-%d", step, len(produced))
					produced = append(produced, value)
					f.produce(int32(rng.IntN(partitions)), value)
				}
				switch i := rng.IntN(most); {
				case i >= len(tasks):
					tasks = append(tasks, f.run())
				case rng.IntN(3) == 0:
					tasks[i].kill()
					_ = tasks[i].end() // that it was given up
					tasks = append(tasks[:i], tasks[i+1:]...)
				case rng.IntN(3) == 0:
					tasks[i].stop()
					tasks = append(tasks[:i], tasks[i+1:]...)
				default:
					tasks[i].SetPaused(rng.IntN(2) == 0)
				}
				if turns := s.called() + rng.IntN(8); len(tasks) > 0 {
					f.eventually("the tasks have their turns", func() bool { return s.called() >= turns })
				}
			}
			for _, one := range tasks {
				one.SetPaused(false)
			}
			tasks = append(tasks, f.run())
			f.eventually("all is safe", func() bool { return s.has(produced) == len(produced) })
			for _, one := range tasks {
				one.stop()
			}
		})
	}
}
