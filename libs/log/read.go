package log

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Isolation is the bound of a read.
type Isolation int8

const (
	LogEnd        Isolation = iota // replicas: everything appended
	HighWatermark                  // read_uncommitted
	Stable                         // read_committed: up to the last stable offset
)

// Read returns the range of one segment that begins with the batch holding offset and has at most maxBytes. Its first
// batch is whole: when that does not fit maxBytes the range is longer with minOneBatch and empty without. It may end
// inside a later batch, which clients discard. It never crosses a segment, and is empty at the bound of iso. Errors wrap
// kerr.OffsetOutOfRange or kerr.KafkaStorageError.
func (l *Log) Read(offset int64, maxBytes int, iso Isolation, minOneBatch bool) (Slice, error) {
	for attempt := 0; ; attempt++ {
		s, err := l.read(offset, maxBytes, iso, minOneBatch)
		if err == nil || errors.Is(err, kerr.OffsetOutOfRange) {
			return s, err
		}
		if again, err := l.readFailed(err, attempt); !again {
			return Slice{}, err
		}
	}
}

// readFailed tells whether a read that failed is to be tried again, because retention, truncation or compaction was quicker and the
// segment is no longer among the log's; if not, what to answer. Only a disk that does not give what it had fences the log.
func (l *Log) readFailed(cause error, attempt int) (again bool, err error) {
	if failed := l.Err(); failed != nil {
		return false, failed
	}
	if errors.Is(cause, fs.ErrNotExist) && attempt < 3 {
		// Files are renamed under mu: once it is free they have the names that the segments know.
		l.mu.Lock()
		defer l.mu.Unlock()
		return true, nil
	}
	failed := slices.ContainsFunc(diskFaults, func(fault error) bool { return errors.Is(cause, fault) })
	if failed || errors.Is(cause, fs.ErrNotExist) && l.vanished() {
		return false, l.fail("read", cause)
	}
	return false, fmt.Errorf("%s-%d: %w: %w", l.topic, l.partition, kerr.KafkaStorageError, cause)
}

// diskFaults are what a read fails with when the disk has failed. A shortage, as of descriptors, passes.
var diskFaults = []error{syscall.EIO, syscall.ENXIO, syscall.ENODEV, syscall.ESTALE}

// vanished says whether somebody has taken a segment away that the log still has.
func (l *Log) vanished() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(*l.segments.Load(), func(s *segment) bool {
		_, err := os.Stat(s.path(logSuffix))
		return errors.Is(err, fs.ErrNotExist)
	})
}

func (l *Log) read(offset int64, maxBytes int, iso Isolation, minOneBatch bool) (Slice, error) {
	if err := l.Err(); err != nil {
		return Slice{}, err
	}
	// The bound comes before the segments, so that they reach it.
	bound := l.bound(iso)
	segs := *l.segments.Load()
	start, end := l.start.Load(), l.end.Load()
	i := floor(segs, offset)
	if offset < start || offset > end || i < 0 {
		return Slice{}, fmt.Errorf("offset %d is not within [%d, %d]: %w", offset, start, end, kerr.OffsetOutOfRange)
	}
	for ; i < len(segs) && segs[i].base < bound && offset < bound; i++ {
		s := segs[i]
		limit := s.size.Load()
		if i+1 == len(segs) || segs[i+1].base > bound {
			pos, ok := l.tail.find(bound, s)
			if !ok {
				var err error
				if pos, err = s.position(bound); err != nil {
					return Slice{}, err
				}
			}
			limit = pos
		}
		slice, found, err := l.slice(s, offset, limit, maxBytes, minOneBatch)
		slice.more = slice.size > 0 && i+1 < len(segs) && segs[i+1].base < bound
		if iso == Stable && slice.size > 0 {
			if slice.upTo, err = s.reach(slice, bound); err != nil {
				slice.Release()
				return Slice{}, err
			}
		}
		if found || err != nil {
			return slice, err
		}
		// The last batches of s were compacted away, or truncated since: what follows is in the next segment.
	}
	return Slice{}, nil
}

func (l *Log) bound(iso Isolation) int64 {
	switch iso {
	case HighWatermark:
		return l.highWatermark.Load()
	case Stable:
		return l.StableOffset()
	}
	return l.end.Load()
}

// slice is the range of s from offset up to limit. found is false when s has no batch there.
func (l *Log) slice(s *segment, offset, limit int64, maxBytes int, minOneBatch bool) (slice Slice, found bool, err error) {
	var first int64 // size of the first batch, where it is asked for
	pos, known := l.tail.find(offset, s)
	if !known || limit-pos > int64(maxBytes) {
		var p place
		if known {
			p, found, err = s.locateFrom(offset, limit, pos)
		} else {
			p, found, err = s.locate(offset, limit)
		}
		if err != nil || !found {
			return Slice{}, false, err
		}
		pos, first = p.pos, p.size
	}
	n := min(limit-pos, int64(max(maxBytes, 0)))
	if n < first {
		if !minOneBatch {
			return Slice{}, true, nil
		}
		n = first
	}
	if n <= 0 {
		return Slice{}, false, nil
	}
	h, err := s.file.acquire()
	if err != nil {
		return Slice{}, false, err
	}
	return Slice{h: h, at: pos, size: int(n)}, true, nil
}

// reach is an offset that no record of the slice reaches, bound where the index knows none below.
func (s *segment) reach(slice Slice, bound int64) (int64, error) {
	offset, ok, err := s.offsets.after(slice.at + int64(slice.size))
	if err != nil || !ok {
		return bound, err
	}
	return min(offset, bound), nil
}

// AbortedTxn is an aborted transaction as a Fetch response names it.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64
}

// AbortedTxns appends to dst the aborted transactions that overlap [from, upTo), ordered by first offset.
func (l *Log) AbortedTxns(dst []AbortedTxn, from, upTo int64) ([]AbortedTxn, error) {
	n := len(dst)
	for attempt := 0; ; attempt++ {
		var err error
		if dst, err = l.abortedTxns(dst[:n], from, upTo); err == nil {
			slices.SortFunc(dst[n:], func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
			return dst, nil
		}
		if again, err := l.readFailed(err, attempt); !again {
			return dst[:n], err
		}
	}
}

func (l *Log) abortedTxns(dst []AbortedTxn, from, upTo int64) ([]AbortedTxn, error) {
	segs := *l.segments.Load()
	for _, s := range segs[max(floor(segs, from), 0):] {
		txns, err := s.txns.read()
		if err != nil {
			return dst, err
		}
		for _, t := range txns {
			if t.last >= from && t.first < upTo {
				dst = append(dst, AbortedTxn{t.producerID, t.first})
			}
		}
		// Once a marker saw no undecided transaction below upTo, later ones cannot concern the range.
		if len(txns) > 0 && txns[len(txns)-1].stable >= upTo {
			break
		}
	}
	return dst, nil
}
