package producers

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/record"
)

var first, second = coordinator.Producer{ID: 7, Epoch: 1}, coordinator.Producer{ID: 7, Epoch: 2}

func ending(epoch int16, coordinatorEpoch int32, version int8) record.Ending {
	return record.Ending{Marker: record.Marker{CoordinatorEpoch: coordinatorEpoch}, ProducerID: 7, ProducerEpoch: epoch, TxnVersion: version}
}

func check(t *testing.T, s *Set, p coordinator.Producer, wantBegins bool, want error) {
	t.Helper()
	if begins, err := s.Check(p); begins != wantBegins || !errors.Is(err, want) {
		t.Errorf("epoch %d: begins %v, %v; want %v, %v", p.Epoch, begins, err, wantBegins, want)
	}
}

func TestWhoMayWrite(t *testing.T) {
	s := NewSet()
	check(t, s, first, true, nil)
	s.Replay(first, 1000)
	check(t, s, first, false, nil)
	check(t, s, second, true, nil)
	s.ReplayMarker(second, record.Marker{})
	check(t, s, first, false, kerr.InvalidProducerEpoch)
	check(t, s, second, true, nil)
}

func TestWhichEndingsAreTaken(t *testing.T) {
	for name, test := range map[string]struct {
		e       record.Ending
		written bool
		want    error
	}{
		"an epoch before":              {ending(0, 9, 1), false, kerr.InvalidProducerEpoch},
		"a coordinator before":         {ending(1, 3, 1), false, kerr.TransactionCoordinatorFenced},
		"in time":                      {ending(1, 4, 1), false, nil},
		"after its transaction":        {ending(1, 4, 2), false, kerr.InvalidProducerEpoch},
		"of the transaction's version": {ending(2, 4, 2), false, nil},
	} {
		s := NewSet()
		s.ReplayMarker(coordinator.Producer{ID: 7, Epoch: 0}, record.Marker{CoordinatorEpoch: 4})
		s.Replay(first, 1000)
		if written, err := s.CheckEnding(test.e); written != test.written || !errors.Is(err, test.want) {
			t.Errorf("%s: written %v, %v; want %v, %v", name, written, err, test.written, test.want)
		}
	}
	s := NewSet()
	if written, err := s.CheckEnding(ending(0, 0, 2)); written || err != nil {
		t.Errorf("of one who is not known: %v, %v", written, err)
	}
	s.ReplayMarker(second, record.Marker{})
	if written, err := s.CheckEnding(ending(2, 0, 2)); !written || err != nil {
		t.Errorf("again: %v, %v", written, err)
	}
	if written, err := s.CheckEnding(ending(2, 0, 1)); written || err != nil {
		t.Errorf("of the next transaction, which has the same epoch: %v, %v", written, err)
	}
}

func TestGuards(t *testing.T) {
	s := NewSet()
	g := s.Guard(first, false)
	if again := s.Guard(first, false); again != g {
		t.Error("two guards of one producer")
	}
	for range 2 {
		if !s.Release(first, g) {
			t.Error("a guard does not hold")
		}
	}
	if s.Guard(first, false) == g {
		t.Error("a guard outlives those who waited with it")
	}
	for what, void := range map[string]func(){
		"a marker": func() { s.ReplayMarker(first, record.Marker{}) }, "a beginning": func() { s.Replay(first, 1000) },
	} {
		g := s.Guard(first, false)
		void()
		if next := s.Guard(first, false); s.Release(first, g) || !s.Release(first, next) {
			t.Errorf("after %s: the guard from before holds, or the next one does not", what)
		}
	}
}

// Where each transaction has an epoch of its own, the next one may be added to while the last one's markers are written.
func TestAMarkerOfTheTransactionBeforeVoidsNothing(t *testing.T) {
	s := NewSet()
	g := s.Guard(second, true)
	s.ReplayMarker(second, record.Marker{}) // of the transaction that had the epoch before
	if !s.Release(second, g) {
		t.Error("the guard does not hold")
	}
	g = s.Guard(second, true)
	s.ReplayMarker(coordinator.Producer{ID: 7, Epoch: 3}, record.Marker{})
	if s.Release(second, g) {
		t.Error("the guard outlives its transaction")
	}
}

func TestProducersAreForgotten(t *testing.T) {
	s := NewSet()
	s.Replay(second, 1000)
	s.Expire(1 << 40)
	check(t, s, first, false, kerr.InvalidProducerEpoch) // its transaction is open
	s.ReplayMarker(second, record.Marker{})
	s.Expire(1000)
	check(t, s, first, false, kerr.InvalidProducerEpoch)
	s.Expire(1001)
	check(t, s, first, true, nil)
}
