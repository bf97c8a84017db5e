package sourcetask

import (
	"sync/atomic"
	"time"
)

// Metrics are those of one task, under Kafka's names in source-task-metrics and connector-task-metrics.
type Metrics struct {
	// Polled is source-record-poll-total, Written source-record-write-total, and Active source-record-active-count: what was polled and neither
	// stored nor left out yet. ActiveMax is the most that it was (source-record-active-count-max).
	Polled, Written, Active, ActiveMax atomic.Int64
	// Polls counts batches; PollNanos is what waiting for them took in all, PollMaxNanos at most (poll-batch-avg- and -max-time-ms).
	Polls, PollNanos, PollMaxNanos atomic.Int64
	// Commits and CommitFailures count what offset-commit-success- and -failure-percentage are made of; CommitNanos is what the last one took,
	// CommitMaxNanos what the longest.
	Commits, CommitFailures, CommitNanos, CommitMaxNanos atomic.Int64
	// Transactions counts those committed, TransactionRecords their records in all, and TransactionMin and TransactionMax those of the smallest and the
	// largest one (transaction-size-…).
	Transactions, TransactionRecords, TransactionMin, TransactionMax atomic.Int64
}

func (m *Metrics) polled(records int, took time.Duration) {
	m.Polls.Add(1)
	m.Polled.Add(int64(records))
	raise(&m.ActiveMax, m.Active.Add(int64(records)))
	m.PollNanos.Add(int64(took))
	raise(&m.PollMaxNanos, int64(took))
}

func (m *Metrics) committed(took time.Duration, err error) {
	if err != nil {
		m.CommitFailures.Add(1)
		return
	}
	m.Commits.Add(1)
	m.CommitNanos.Store(int64(took))
	raise(&m.CommitMaxNanos, int64(took))
}

// transaction is called by one goroutine.
func (m *Metrics) transaction(records int64) {
	m.TransactionRecords.Add(records)
	raise(&m.TransactionMax, records)
	if m.Transactions.Add(1) == 1 || records < m.TransactionMin.Load() {
		m.TransactionMin.Store(records)
	}
}

// raise is called by one goroutine for each value.
func raise(value *atomic.Int64, to int64) {
	if to > value.Load() {
		value.Store(to)
	}
}
