package replication

import "github.com/twmb/franz-go/pkg/kerr"

// History is what a log knows of its leader epochs.
type History interface {
	// StartOffset is the offset of the first record that there may be.
	StartOffset() int64
	// EndOffset is the offset that the next record gets.
	EndOffset() int64
	// EndOffsetForEpoch is the largest known epoch that is not above the one asked for, and where the next one begins; (-1, -1)
	// when unknown.
	EndOffsetForEpoch(epoch int32) (foundEpoch int32, endOffset int64)
}

// Diverges says whether a reader whose last record has the epoch, and who goes on at offset, has read what this log does not
// have; epoch and endOffset then tell it where to look for the last that both have (KIP-595). Errors wrap
// kerr.OffsetOutOfRange.
func Diverges(log History, offset int64, lastFetchedEpoch int32) (diverges bool, epoch int32, endOffset int64, err error) {
	if lastFetchedEpoch < 0 {
		return false, -1, -1, nil
	}
	epoch, endOffset = log.EndOffsetForEpoch(lastFetchedEpoch)
	if epoch < 0 || endOffset < 0 || offset < log.StartOffset() {
		return false, -1, -1, kerr.OffsetOutOfRange
	}
	return epoch < lastFetchedEpoch || endOffset < offset, epoch, endOffset, nil
}

// TruncateTo is where a follower's log is cut when its leader finds that it diverges: epoch and endOffset are the leader's
// largest epoch that is not above that of the follower's last record, and its end there (KIP-279). Never is anything cut that
// the leader has too; the next fetch may show that more has to go.
func TruncateTo(log History, epoch int32, endOffset int64) int64 {
	end := log.EndOffset()
	if endOffset < 0 {
		return end
	}
	ownEpoch, ownEnd := log.EndOffsetForEpoch(epoch)
	switch {
	case epoch < 0 || ownEpoch < 0:
		return min(endOffset, end)
	case ownEpoch != epoch:
		// The follower never saw the leader's epoch: everything after its own last one before that goes.
		return min(ownEnd, end)
	default:
		return min(ownEnd, endOffset, end)
	}
}

// Resume is what a follower does that the leader told OFFSET_OUT_OF_RANGE.
type Resume struct {
	// Restart empties the log and begins it at Offset; otherwise it is cut to Offset, or stays if that is its end.
	Restart bool
	Offset  int64
}

// OutOfRange decides by the follower's log end and the range of the leader's log.
func OutOfRange(end, leaderStart, leaderEnd int64) Resume {
	switch {
	case leaderEnd < end:
		return Resume{Offset: leaderEnd}
	case leaderStart > end:
		return Resume{Restart: true, Offset: leaderStart}
	default:
		return Resume{Offset: end}
	}
}
