package offsets

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Submitted follows the records of one source task from the moment they are sent until they are acknowledged, and knows which offset of
// each partition may be stored: the newest that has all records before it acknowledged. It is not safe for concurrent use.
//
// Offsets are parsed when they are to be stored, which few are. What it holds is for its caller to bound, by Held.
type Submitted struct {
	ids    map[string]int
	queues []*queue
	// unacked counts all records without an answer, held those that are in queues.
	unacked, held int
}

// queue is one partition's records, oldest first, from head on: what is before it is done. first numbers the record at head.
type queue struct {
	partition Map
	first     int64
	head      int
	records   []submitted
	// ready is the newest offset that may be stored and was not taken yet.
	ready json.RawMessage
}

type submitted struct {
	offset json.RawMessage
	done   bool
}

// Submission names a record that was submitted.
type Submission struct {
	queue  int
	number int64
}

// NewSubmitted has no records.
func NewSubmitted() *Submitted { return &Submitted{ids: map[string]int{}} }

// Partition returns a number for a source partition, the same for the same fields, so that a caller whose records share a partition need not look it up each time.
func (s *Submitted) Partition(partition Map) int {
	id := identity(partition)
	n, ok := s.ids[id]
	if !ok {
		n = len(s.queues)
		s.ids[id] = n
		s.queues = append(s.queues, &queue{partition: partition})
	}
	return n
}

// Submit adds the next record of a partition, by the number of Partition. offset is the JSON of where the source goes on after the record, and may
// be nil for a record that has none to store.
func (s *Submitted) Submit(partition int, offset json.RawMessage) Submission {
	q := s.queues[partition]
	q.records = append(q.records, submitted{offset: offset})
	s.unacked++
	s.held++
	return Submission{partition, q.first + int64(len(q.records)-q.head) - 1}
}

// Ack says that a record is in the log, or was dropped on purpose. Each submission is acknowledged or cancelled once.
func (s *Submitted) Ack(id Submission) { s.done(id, false) }

// Cancel takes a record back that will not be sent: its offset is never stored on its own account.
func (s *Submitted) Cancel(id Submission) { s.done(id, true) }

func (s *Submitted) done(id Submission, cancelled bool) {
	q := s.queues[id.queue]
	r := &q.records[q.head+int(id.number-q.first)]
	r.done = true
	if cancelled {
		r.offset = nil
	}
	s.unacked--
	for q.head < len(q.records) && q.records[q.head].done {
		if o := q.records[q.head].offset; o != nil {
			q.ready = o
		}
		q.records[q.head] = submitted{}
		q.head, q.first = q.head+1, q.first+1
		s.held--
	}
	// Half of the memory at most is unused, and each record is moved once on average.
	if q.head*2 >= len(q.records) {
		q.records = append(q.records[:0], q.records[q.head:]...)
		q.head = 0
	}
}

// Take returns the offsets that may be stored and have not been taken, at most one for each partition. The error is of offsets that are no JSON
// objects of primitive values: these are not among them, and are not tried again.
func (s *Submitted) Take() ([]Entry, error) {
	var entries []Entry
	var faults []error
	for _, q := range s.queues {
		if q.ready == nil {
			continue
		}
		offset, err := ParseMap(q.ready)
		if err == nil {
			entries = append(entries, Entry{q.partition, offset})
		} else {
			faults = append(faults, fmt.Errorf("offset %.200s of partition %s: %w", q.ready, appendMap(nil, q.partition), err))
		}
		q.ready = nil
	}
	return entries, errors.Join(faults...)
}

// Return gives back what was taken and could not be stored, so that the next Take has it, or something newer.
func (s *Submitted) Return(entries []Entry) {
	for _, e := range entries {
		if q := s.queues[s.Partition(e.Partition)]; q.ready == nil {
			q.ready = appendMap(nil, e.Offset)
		}
	}
}

// Unacked is the number of records that are neither acknowledged nor cancelled.
func (s *Submitted) Unacked() int { return s.unacked }

// Held is the number of records that it has to remember: those without an answer, and those that one of their partition before them holds up.
func (s *Submitted) Held() int { return s.held }
