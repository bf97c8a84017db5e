package coordinator

import (
	"errors"
	"maps"
	"time"

	"github.com/cauce-stream/cauce/libs/record"
)

// kv is a machine for tests: a map whose every change is a record, with changes in transactions held back.
type kv struct {
	data    map[string]string
	pending map[Producer]map[string]string

	runs    int // operations
	loaded  int
	news    string // told by RunAll
	parked  []Ticket
	tickAt  time.Time
	ticks   []time.Time
	replays []Record
}

var errPoison = errors.New("poison")

func newKV(int32) *kv {
	return &kv{data: map[string]string{}, pending: map[Producer]map[string]string{}}
}

func (m *kv) Replay(p Producer, r Record) error {
	if string(r.Key) == "poison" {
		return errPoison
	}
	m.replays = append(m.replays, r)
	to := m.data
	if p != NoProducer {
		if m.pending[p] == nil {
			m.pending[p] = map[string]string{}
		}
		to = m.pending[p]
	}
	if r.Value == nil {
		delete(to, string(r.Key))
	} else {
		to[string(r.Key)] = string(r.Value)
	}
	return nil
}

func (m *kv) ReplayMarker(p Producer, marker record.Marker) error {
	if marker.Type == record.Commit {
		maps.Copy(m.data, m.pending[p])
	}
	delete(m.pending, p)
	return nil
}

func (m *kv) Loaded(time.Time) Step {
	m.loaded++
	return Step{Producer: NoProducer}
}

func (m *kv) Tick(now time.Time) Step {
	m.ticks = append(m.ticks, now)
	m.tickAt = time.Time{}
	return Step{Producer: NoProducer}
}

func (m *kv) NextTick() time.Time { return m.tickAt }

type op = func(*kv, time.Time, Ticket) Step

// emit is a step with records that have been replayed.
func (m *kv) emit(p Producer, records ...Record) Step {
	for _, r := range records {
		if err := m.Replay(p, r); err != nil {
			panic(err)
		}
	}
	return Step{Records: records, Producer: p}
}

func put(key, value string) op {
	return putIn(NoProducer, key, value)
}

func putIn(p Producer, key, value string) op {
	return func(m *kv, _ time.Time, t Ticket) Step {
		m.runs++
		step := m.emit(p, Record{Key: []byte(key), Value: []byte(value)})
		step.Answers = []Answer{{t, value}}
		return step
	}
}

// finish ends a transaction.
func finish(p Producer, marker record.Marker) op {
	return func(m *kv, _ time.Time, t Ticket) Step {
		if err := m.ReplayMarker(p, marker); err != nil {
			panic(err)
		}
		return Step{Producer: p, Marker: &marker, Answers: []Answer{{t, "ended"}}}
	}
}

func get(key string) op {
	return func(m *kv, _ time.Time, t Ticket) Step {
		return Step{Producer: NoProducer, Answers: []Answer{{t, m.data[key]}}}
	}
}

// park leaves the request without an answer, until release.
func park(m *kv, _ time.Time, t Ticket) Step {
	m.parked = append(m.parked, t)
	return Step{Producer: NoProducer}
}

func release(response string) func(*kv, time.Time) Step {
	return func(m *kv, _ time.Time) Step {
		step := Step{Producer: NoProducer}
		for _, t := range m.parked {
			step.Answers = append(step.Answers, Answer{t, response})
		}
		m.parked = nil
		return step
	}
}
