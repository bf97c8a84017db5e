package log

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// finishSwaps completes or undoes a compaction that was interrupted: .cleaned files are unfinished and go; .swap files are
// finished and take the place of the segments whose range they cover. names is brought up to date.
func (l *Log) finishSwaps(names map[string]bool) error {
	const cleaned, swap = ".cleaned", ".swap"
	lowest := int64(-1) // base of the lowest unfinished segment
	var swaps []string
	for name := range names {
		switch {
		case strings.HasSuffix(name, cleaned):
			if offset, _, ok := parseFileName(strings.TrimSuffix(name, cleaned)); ok && (lowest < 0 || offset < lowest) {
				lowest = offset
			}
		case strings.HasSuffix(name, swap):
			swaps = append(swaps, name)
		}
	}
	if lowest < 0 && len(swaps) == 0 {
		return nil
	}
	from, upTo := int64(-1), int64(-1) // what the swapped segments cover
	var valid []string
	for _, name := range swaps {
		offset, suffix, ok := parseFileName(strings.TrimSuffix(name, swap))
		if !ok || lowest >= 0 && offset >= lowest {
			continue
		}
		valid = append(valid, name)
		if suffix != logSuffix {
			continue
		}
		next, err := nextOffsetOf(filepath.Join(l.dir, name), offset)
		if err != nil {
			return err
		}
		if from < 0 || offset < from {
			from = offset
		}
		upTo = max(upTo, next)
	}
	for name := range names {
		offset, _, ok := parseFileName(name)
		replaced := ok && from >= 0 && offset >= from && offset < upTo
		stale := strings.HasSuffix(name, cleaned) || strings.HasSuffix(name, swap) && !slices.Contains(valid, name)
		if replaced || stale {
			if err := l.fs.Remove(filepath.Join(l.dir, name)); err != nil {
				return err
			}
			delete(names, name)
		}
	}
	for _, name := range valid {
		to := strings.TrimSuffix(name, swap)
		if err := l.fs.Rename(filepath.Join(l.dir, name), filepath.Join(l.dir, to)); err != nil {
			return err
		}
		delete(names, name)
		names[to] = true
	}
	return nil
}

// nextOffsetOf is the offset after the last batch of a segment file.
func nextOffsetOf(path string, base int64) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	sc, err := newScanner(f)
	if err != nil {
		return 0, err
	}
	defer sc.close()
	next := base
	for {
		b, _, err := sc.next()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, kerr.CorruptMessage) {
				return next, nil
			}
			return 0, err
		}
		next = b.LastOffset() + 1
	}
}
