// Package coordinator runs shards: single-writer state machines, each over one partition of an internal topic that
// brokers store. It is what the group and the transaction coordinator have in common.
//
// A shard's [Machine] is pure. It changes what must survive by replaying records and in no other way: handling a request
// makes records and replays them at once, loading replays the same records from the log. The runtime appends them with
// acks=all under the shard's epoch, one batch at a time, and gives the answers once what they rest on is committed.
package coordinator

import (
	"time"

	"github.com/cauce-stream/cauce/libs/record"
)

// Record is a record of the shard's log. A nil Value is a tombstone.
type Record struct{ Key, Value []byte }

// Producer names the transaction that records belong to. NoProducer stands for none.
type Producer struct {
	ID    int64
	Epoch int16
}

// NoProducer is the Producer of records outside of transactions.
var NoProducer = Producer{ID: -1, Epoch: -1}

// Ticket names a request that waits for its answer; 0 names none. The runtime hands tickets out and keeps what is to be
// called; a machine only remembers them. Tickets that a machine still holds when its shard is unloaded are answered by
// the runtime.
type Ticket uint64

// Answer ends the wait of a request.
type Answer struct {
	Ticket   Ticket
	Response any
}

// Step is all that one call of a machine brings about.
type Step struct {
	// Records are appended as one batch, whole or not at all. The machine has replayed them already.
	Records []Record
	// Producer makes the batch part of a transaction.
	Producer Producer
	// Marker ends the transaction of Producer, in a step without Records. The machine has replayed it already.
	Marker *record.Marker
	// Answers are given once Records, and all records before them, are committed; in order.
	Answers []Answer
	// Jobs are work for the shell, handed over at once and in order. Their results come back as operations of their own.
	Jobs []any
	// After are jobs that are handed over only once Records, and all records before them, are committed; in order. They are dropped
	// when the shard is lost, or loaded again, before that.
	After []any
}

// Machine is the state of one shard. Its methods are called by one goroutine at a time; now never goes backwards.
// They must not keep or read anything that changes outside.
type Machine interface {
	// Replay applies a committed record of the log, or one that the machine has just made. The machine may keep its slices.
	Replay(p Producer, r Record) error
	// ReplayMarker ends a transaction: its records count from now on, or never did.
	ReplayMarker(p Producer, m record.Marker) error
	// Loaded is called once, after the last record of the log was replayed and before the first request.
	Loaded(now time.Time) Step
	// Tick does what has become due. NextTick is when to look for that, not later than when there is something; zero for never.
	Tick(now time.Time) Step
	NextTick() time.Time
}
