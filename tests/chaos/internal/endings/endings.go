// Package endings checks how transactions end in the logs of partitions: each by a marker of its own, and everywhere by the same.
package endings

import (
	"maps"
	"slices"

	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/tests/finding"
)

// The kinds of violations.
const (
	Split   finding.Kind = "split"   // committed in one partition, and aborted in another
	RunOn   finding.Kind = "run on"  // the producer's next transaction begins before the marker of the one before
	Unended finding.Kind = "unended" // without a marker
	Corrupt finding.Kind = "corrupt" // not a sequence of valid batches
)

// transaction is one of a client that follows KIP-890: each of a producer id has an epoch of its own.
type transaction struct {
	producerID int64
	epoch      int16
}

// ending is a marker in a partition.
type ending struct {
	partition string
	offset    int64
	how       record.ControlType
}

// Check says what must not be so in logs that nobody writes to any more, the gravest kinds first in the order above. All
// producers follow KIP-890.
func Check(logs map[string][]byte) finding.List {
	var found finding.List
	endings := map[transaction][]ending{}
	for _, partition := range slices.Sorted(maps.Keys(logs)) {
		check(partition, logs[partition], endings, &found)
	}
	for t, all := range endings {
		for _, e := range all[1:] {
			if first := all[0]; e.how != first.how {
				found.Add(Split, "that of producer %d and epoch %d ends at %s@%d by %d, and at %s@%d by %d (1 is a commit)",
					t.producerID, t.epoch, first.partition, first.offset, first.how, e.partition, e.offset, e.how)
				break
			}
		}
	}
	found.Sort(Split, RunOn, Unended, Corrupt)
	return found
}

func check(partition string, rest []byte, endings map[transaction][]ending, found *finding.List) {
	type begun struct {
		epoch  int16
		offset int64
	}
	open := map[int64]begun{}
	for len(rest) > 0 {
		b, after, err := record.Next(rest)
		if err != nil {
			found.Add(Corrupt, "%s: %v", partition, err)
			return
		}
		rest = after
		if !b.IsTransactional() {
			continue
		}
		id := b.ProducerID()
		t, isOpen := open[id]
		marker, isMarker, err := b.Marker()
		switch {
		case err != nil:
			found.Add(Corrupt, "%s@%d: %v", partition, b.BaseOffset(), err)
		case isMarker && isOpen:
			key := transaction{id, t.epoch}
			endings[key] = append(endings[key], ending{partition, b.BaseOffset(), marker.Type})
			delete(open, id)
		case isMarker: // of a partition that was added, and not written to
		case !isOpen:
			open[id] = begun{b.ProducerEpoch(), b.BaseOffset()}
		case t.epoch != b.ProducerEpoch():
			found.Add(RunOn, "%s: that of producer %d and epoch %d is open from %d on, and epoch %d begins at %d",
				partition, id, t.epoch, t.offset, b.ProducerEpoch(), b.BaseOffset())
			open[id] = begun{b.ProducerEpoch(), b.BaseOffset()}
		}
	}
	for id, t := range open {
		found.Add(Unended, "%s: that of producer %d and epoch %d is open from %d on", partition, id, t.epoch, t.offset)
	}
}
