package natsio

import (
	"maps"
	"slices"
)

// ledger knows what has become of each message of a stream that was delivered, so that records come in the order of the stream
// and each but once, whatever is delivered again or lost on its way.
//
// Invariant: all messages up to last that the task is to have are records that were passed on, now or before the task began. Those
// that are flying are not known to be stored.
type ledger struct {
	last   uint64
	flying map[uint64]string // where to confirm them, by sequence
	held   map[uint64]string // that were delivered and not passed on: one before them may be missing
	// repeated are confirmations that have been sent and that the server may not have.
	repeated []string
	// settled says that no message is missing that the server takes for delivered.
	settled bool
}

func newLedger(last uint64) *ledger {
	return &ledger{last: last, flying: map[uint64]string{}, held: map[uint64]string{}}
}

// begin says that a new connection delivers messages: anew says whether all that are not confirmed come again first, in order.
func (l *ledger) begin(anew bool) {
	l.settled = anew
	if anew {
		clear(l.held) // they come again behind what is missing
	}
}

// receive takes note of a message. fresh says that it is to be kept until release returns it; stored that it is to be
// confirmed at once, as its record is stored.
func (l *ledger) receive(sequence uint64, confirm string) (fresh, stored bool) {
	if sequence > l.last {
		_, again := l.held[sequence]
		l.held[sequence] = confirm
		return !again, false
	}
	if _, flies := l.flying[sequence]; flies {
		l.flying[sequence] = confirm
		return false, false
	}
	return false, true
}

// count is how many messages are delivered and not confirmed, as far as it is known here.
func (l *ledger) count() int { return len(l.flying) + len(l.held) }

// settle is told how many messages the server takes for delivered and not confirmed.
func (l *ledger) settle(pending int) { l.settled = l.settled || pending <= l.count() }

// release returns the messages that may be passed on, in order.
func (l *ledger) release() []uint64 {
	if !l.settled || len(l.held) == 0 {
		return nil
	}
	sequences := slices.Sorted(maps.Keys(l.held))
	maps.Copy(l.flying, l.held)
	clear(l.held)
	l.last = sequences[len(sequences)-1]
	return sequences
}

// store says that the record of a message is stored, and returns where to confirm it.
func (l *ledger) store(sequence uint64) (confirm string, flies bool) {
	if confirm, flies = l.flying[sequence]; flies {
		delete(l.flying, sequence)
		l.repeated = append(l.repeated, confirm)
	}
	return confirm, flies
}

// open returns where to ask for more time, for all that is delivered and not confirmed, in the order of the messages.
func (l *ledger) open() []string {
	places := make([]string, 0, l.count())
	for _, some := range []map[uint64]string{l.flying, l.held} {
		for _, sequence := range slices.Sorted(maps.Keys(some)) {
			places = append(places, some[sequence])
		}
	}
	return places
}
