// Package audit checks what the producers and consumers of a cluster were told against what its replicas hold in the end: that
// nothing acknowledged is lost, nothing out of order or doubled that must not be, and nothing was read that was not kept. It
// knows nothing of how the cluster was broken meanwhile.
package audit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/tests/finding"
)

// Record is one that a producer sent to a partition. The numbers of a producer in a partition are 0, 1, 2….
type Record struct {
	Producer int32
	Number   int64
}

// Marker is the record of a control batch, which ends a transaction.
var Marker = Record{Producer: -1}

func (r Record) String() string { return fmt.Sprintf("record %d of producer %d", r.Number, r.Producer) }

const identitySize = 12

// Value is what r is sent as: at least size bytes that tell which record they are.
func (r Record) Value(size int) []byte {
	v := make([]byte, max(size, identitySize))
	binary.BigEndian.PutUint32(v, uint32(r.Producer))
	binary.BigEndian.PutUint64(v[4:], uint64(r.Number))
	return v
}

// Parse tells which record a value is.
func Parse(value []byte) (Record, error) {
	if len(value) < identitySize {
		return Record{}, fmt.Errorf("a value of %d bytes is none that a producer sent", len(value))
	}
	return Record{int32(binary.BigEndian.Uint32(value)), int64(binary.BigEndian.Uint64(value[4:]))}, nil
}

// Ack is what a producer was told of a record that it counts as written.
type Ack struct {
	Number int64
	Offset int64 // -1 where the cluster no longer knew it, as for a batch that was sent twice
}

// Producer is what one did in a partition. It gives up no record: each is sent again until it is acknowledged, and
// one before the other's acknowledgement only if it is idempotent. A transactional one may leave numbers out, whose transaction failed.
type Producer struct {
	Idempotent    bool
	Transactional bool
	Sent          int64 // the numbers below were sent
	Acks          []Ack
}

// Sight is a record that a consumer was given.
type Sight struct {
	Offset int64
	Record Record
}

// View is what one consumer was given of a partition from some offset on, in that order.
type View struct {
	Consumer string
	Sights   []Sight
}

// Replica is one in the end: the bytes of its segments, one behind the other.
type Replica struct {
	Node int32
	Data []byte
}

// Partition is all that is known of one. It was never shortened by retention.
type Partition struct {
	Topic     string
	ID        int32
	Producers map[int32]Producer
	Views     []View
	Replicas  []Replica
	// HighWatermark in the end, when all replicas are in sync.
	HighWatermark int64
}

// The kinds of violations.
const (
	Lost       finding.Kind = "lost"       // acknowledged, and not there
	Misplaced  finding.Kind = "misplaced"  // there, at another offset than was acknowledged
	Reordered  finding.Kind = "reordered"  // behind one that its producer sent later
	Duplicated finding.Kind = "duplicated" // there twice, although its producer is idempotent
	Skipped    finding.Kind = "skipped"    // an idempotent producer's record is missing before one that is there
	Unknown    finding.Kind = "unknown"    // nobody sent it
	Gap        finding.Kind = "gap"        // offsets of the log that do not follow one another
	Corrupt    finding.Kind = "corrupt"    // what is stored is no sequence of valid batches
	Differing  finding.Kind = "differing"  // replicas have other bytes below the high watermark
	Dirty      finding.Kind = "dirty"      // a consumer was given what the log does not have there
	Unordered  finding.Kind = "unordered"  // a consumer was given offsets that do not follow one another
)

// Check says what must not be so, the gravest kinds first in the order above.
func Check(p Partition) []finding.Finding {
	var found finding.List
	kept := p.compareReplicas(&found)
	p.checkProducers(kept, &found)
	for _, v := range p.Views {
		v.check(kept, &found)
	}
	found.Sort(Lost, Misplaced, Reordered, Duplicated, Skipped, Unknown, Gap, Corrupt, Differing, Dirty, Unordered)
	return found
}

// log is a partition's content, from offset 0 on.
type log []Record

// compareReplicas returns the content that the first replica has.
func (p Partition) compareReplicas(found *finding.List) log {
	var kept log
	var reference []byte
	for i, r := range p.Replicas {
		committed, content, err := r.read(p.HighWatermark)
		switch {
		case errors.Is(err, errGap):
			found.Add(Gap, "node %d: %v", r.Node, err)
		case err != nil:
			found.Add(Corrupt, "node %d: %v", r.Node, err)
		}
		if next := int64(len(content)); next < p.HighWatermark && err == nil {
			found.Add(Gap, "node %d ends at offset %d, the high watermark is %d", r.Node, next, p.HighWatermark)
		}
		if i == 0 {
			kept, reference = content, committed
			continue
		}
		if !bytes.Equal(committed, reference) {
			found.Add(Differing, "nodes %d and %d: %d and %d bytes below the high watermark, the first difference at byte %d",
				p.Replicas[0].Node, r.Node, len(reference), len(committed), firstDifference(reference, committed))
		}
	}
	return kept
}

func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

var errGap = errors.New("offsets do not follow one another")

// read returns the bytes and the content of the batches below the high watermark, up to the first that is not right.
func (r Replica) read(highWatermark int64) (committed []byte, content log, err error) {
	rest := r.Data
	for len(rest) > 0 {
		batch, after, err := record.Next(rest)
		if err != nil {
			return r.Data[:len(r.Data)-len(rest)], content, err
		}
		if batch.BaseOffset() >= highWatermark {
			break
		}
		if next := int64(len(content)); batch.BaseOffset() != next {
			return r.Data[:len(r.Data)-len(rest)], content, fmt.Errorf("%w: a batch at %d behind offset %d", errGap, batch.BaseOffset(), next-1)
		}
		if content, err = appendBatch(content, batch); err != nil {
			return r.Data[:len(r.Data)-len(rest)], content, err
		}
		rest = after
	}
	return r.Data[:len(r.Data)-len(rest)], content, nil
}

func appendBatch(content log, batch record.Batch) (log, error) {
	if err := batch.CheckCRC(); err != nil {
		return content, fmt.Errorf("batch at offset %d: %w", batch.BaseOffset(), err)
	}
	for r, err := range batch.Records(0) {
		if err != nil {
			return content, fmt.Errorf("batch at offset %d: %w", batch.BaseOffset(), err)
		}
		if next := int64(len(content)); batch.Offset(r) != next {
			return content, fmt.Errorf("%w: a record at %d behind offset %d", errGap, batch.Offset(r), next-1)
		}
		if batch.IsControl() {
			content = append(content, Marker)
			continue
		}
		identity, err := Parse(r.Value)
		if err != nil {
			return content, fmt.Errorf("offset %d: %w", batch.Offset(r), err)
		}
		content = append(content, identity)
	}
	if next := int64(len(content)); batch.LastOffset() != next-1 {
		return content, fmt.Errorf("%w: a batch that says to end at %d and ends at %d", errGap, batch.LastOffset(), next-1)
	}
	return content, nil
}

// checkProducers holds what was acknowledged against what was kept.
func (p Partition) checkProducers(kept log, found *finding.List) {
	places := map[Record]int64{} // the first of each
	last := map[int32]int64{}    // the highest number of each producer so far
	for i, r := range kept {
		if r == Marker {
			continue
		}
		offset := int64(i)
		producer := p.Producers[r.Producer]
		if r.Number < 0 || r.Number >= producer.Sent {
			found.Add(Unknown, "offset %d: %v", offset, r)
			continue
		}
		highest, any := last[r.Producer]
		if !any {
			highest = -1
		}
		first, again := places[r]
		switch {
		case again && (producer.Idempotent || producer.Transactional):
			found.Add(Duplicated, "%v is at offsets %d and %d", r, first, offset)
		case again:
			continue
		case r.Number < highest:
			found.Add(Reordered, "%v is at offset %d, behind record %d", r, offset, highest)
		case r.Number > highest+1 && producer.Idempotent:
			found.Add(Skipped, "%v is at offset %d, behind record %d", r, offset, highest)
		}
		places[r] = offset
		last[r.Producer] = max(highest, r.Number)
	}
	for id, producer := range p.Producers {
		for _, ack := range producer.Acks {
			r := Record{id, ack.Number}
			_, there := places[r]
			switch {
			case !there:
				found.Add(Lost, "%v, acknowledged at offset %d", r, ack.Offset)
			case ack.Offset >= 0 && (ack.Offset >= int64(len(kept)) || kept[ack.Offset] != r):
				found.Add(Misplaced, "%v, acknowledged at offset %d, is at offset %d", r, ack.Offset, places[r])
			}
		}
	}
}

// check holds what a consumer was given against what was kept.
func (v View) check(kept log, found *finding.List) {
	for i, s := range v.Sights {
		if i > 0 && s.Offset != v.Sights[i-1].Offset+1 {
			found.Add(Unordered, "%s was given offset %d after %d", v.Consumer, s.Offset, v.Sights[i-1].Offset)
		}
		switch {
		case s.Offset < 0 || s.Offset >= int64(len(kept)):
			found.Add(Dirty, "%s was given %v at offset %d, and the log ends at %d", v.Consumer, s.Record, s.Offset, len(kept))
		case kept[s.Offset] != s.Record:
			found.Add(Dirty, "%s was given %v at offset %d, where %v is", v.Consumer, s.Record, s.Offset, kept[s.Offset])
		}
	}
}
