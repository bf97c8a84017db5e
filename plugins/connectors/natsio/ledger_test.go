package natsio

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// consumer is what a server knows of a durable consumer: up to where it has delivered, and what of that is not confirmed.
type consumer struct {
	messages  []uint64 // of the stream, that the consumer is for
	delivered int      // how many of them
	pending   map[uint64]bool
}

// simulation is a consumer, a ledger, and a topic that records are stored in.
type simulation struct {
	t      *testing.T
	random *rand.Rand
	consumer
	*ledger
	passed, topic []uint64
	anew          bool // the server can deliver anew
}

// receive delivers a message to the ledger, or loses it.
func (s *simulation) receive(sequence uint64, lost bool) {
	s.pending[sequence] = true
	if lost {
		return
	}
	if _, stored := s.ledger.receive(sequence, fmt.Sprint(sequence)); stored {
		delete(s.pending, sequence)
	}
}

// deliver delivers the next messages; broken loses the last ones of them.
func (s *simulation) deliver(broken bool) {
	for range s.random.IntN(5) {
		if s.delivered < len(s.messages) {
			s.receive(s.messages[s.delivered], broken && s.random.IntN(2) == 0)
			s.delivered++
		}
	}
}

// again delivers some messages again whose time is over, in any order.
func (s *simulation) again() {
	for sequence := range s.pending {
		if s.random.IntN(3) == 0 {
			s.receive(sequence, false)
		}
	}
}

func (s *simulation) pass() {
	s.settle(len(s.pending))
	s.passed = append(s.passed, s.release()...)
}

// keep stores records that were passed on, in order, and confirms them; lost says that the confirmation gets lost.
func (s *simulation) keep(lost bool) {
	for range s.random.IntN(4) {
		if len(s.topic) == len(s.passed) {
			return
		}
		sequence := s.passed[len(s.topic)]
		s.topic = append(s.topic, sequence)
		if _, flies := s.store(sequence); flies && !lost {
			delete(s.pending, sequence)
		}
	}
}

// reconnect begins anew by another connection.
func (s *simulation) reconnect() {
	for _, confirm := range s.repeated {
		for sequence := range s.pending {
			if fmt.Sprint(sequence) == confirm {
				delete(s.pending, sequence)
			}
		}
	}
	s.repeated = nil
	if s.anew {
		for i := range s.delivered {
			if s.pending[s.messages[i]] { // the first that is not confirmed
				s.delivered = i
				break
			}
		}
		clear(s.pending)
	}
	s.begin(s.anew)
}

// crash is another task that begins behind what is stored.
func (s *simulation) crash() {
	var last uint64
	if n := len(s.topic); n > 0 {
		last = s.topic[n-1]
	}
	s.passed = slices.Clone(s.topic)
	s.ledger = newLedger(last)
	s.reconnect()
}

// TestOrderWhateverGetsLost has messages and confirmations lost, delivered again in any order, and tasks that end at any time:
// the topic has each message once, in order.
func TestOrderWhateverGetsLost(t *testing.T) {
	for seed := range uint64(3000) {
		s := &simulation{t: t, random: rand.New(rand.NewPCG(seed, 0)), ledger: newLedger(0), anew: seed%2 == 0}
		s.pending = map[uint64]bool{}
		for at := uint64(0); len(s.messages) < 40; {
			at += 1 + s.random.Uint64N(3) // others are for other subjects
			s.messages = append(s.messages, at)
		}
		s.begin(true)
		for step := 0; len(s.topic) < len(s.messages); step++ {
			if step > 5000 {
				t.Fatalf("seed %d: it does not end: %v", seed, s.topic)
			}
			switch s.random.IntN(12) {
			case 0:
				s.deliver(true)
				s.reconnect()
			case 1:
				s.keep(true)
				s.reconnect()
			case 2:
				s.crash()
			case 3, 4, 5:
				s.again()
			default:
				s.deliver(false)
			}
			s.pass()
			s.keep(false)
		}
		if !slices.Equal(s.topic, s.messages) {
			t.Fatalf("seed %d: %v, want %v", seed, s.topic, s.messages)
		}
	}
}

func TestTheLedger(t *testing.T) {
	l := newLedger(10)
	l.begin(false)
	for _, test := range []struct {
		sequence      uint64
		fresh, stored bool
	}{{9, false, true}, {10, false, true}, {13, true, false}, {13, false, false}, {12, true, false}} {
		if fresh, stored := l.receive(test.sequence, fmt.Sprint(test.sequence)); fresh != test.fresh || stored != test.stored {
			t.Errorf("%d: fresh %t, stored %t", test.sequence, fresh, stored)
		}
	}
	if l.settle(3); l.release() != nil {
		t.Error("passed on while one is missing")
	}
	if l.settle(2); !slices.Equal(l.release(), []uint64{12, 13}) || l.last != 13 {
		t.Errorf("%+v", l)
	}
	if fresh, stored := l.receive(12, "anew"); fresh || stored || !slices.Equal(l.open(), []string{"anew", "13"}) {
		t.Errorf("flying: %t, %t, %v", fresh, stored, l.open())
	}
	if confirm, flies := l.store(12); confirm != "anew" || !flies || !slices.Equal(l.repeated, []string{"anew"}) {
		t.Errorf("%s, %t, %v", confirm, flies, l.repeated)
	}
	if _, flies := l.store(12); flies || !slices.Equal(slices.Collect(maps.Keys(l.flying)), []uint64{13}) {
		t.Error("stored twice")
	}
}
