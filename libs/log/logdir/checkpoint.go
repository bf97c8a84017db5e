package logdir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/libs/log"
)

// The checkpoint files of a directory.
const (
	recoveryPointFile = "recovery-point-offset-checkpoint"
	startOffsetFile   = "log-start-offset-checkpoint"
	highWatermarkFile = "replication-offset-checkpoint"
	cleanedFile       = "cleaner-offset-checkpoint"
)

// checkpointed is what each checkpoint file holds of a log.
var checkpointed = map[string]func(*log.Log) int64{
	recoveryPointFile: (*log.Log).RecoveryPoint, startOffsetFile: (*log.Log).StartOffset,
	highWatermarkFile: (*log.Log).HighWatermark, cleanedFile: (*log.Log).CleanedTo,
}

// allCheckpoints are the names of them all.
var allCheckpoints = []string{recoveryPointFile, startOffsetFile, highWatermarkFile, cleanedFile}

// sparse tells whether a checkpoint file leaves out logs of which it would hold 0.
func sparse(name string) bool { return name == startOffsetFile || name == cleanedFile }

// key names a partition.
type key struct {
	topic     string
	partition int32
}

var errBadCheckpoint = errors.New("malformed checkpoint")

// encodeCheckpoint is a checkpoint file: the version 0, the count, and a line "topic partition offset" for each.
func encodeCheckpoint(n int, entries func(yield func(key, int64) bool)) []byte {
	b := make([]byte, 0, 16+32*n)
	b = fmt.Appendf(b, "0\n%d\n", n)
	for k, offset := range entries {
		b = append(append(b, k.topic...), ' ')
		b = append(strconv.AppendInt(b, int64(k.partition), 10), ' ')
		b = append(strconv.AppendInt(b, offset, 10), '\n')
	}
	return b
}

// decodeCheckpoint reads a checkpoint file; an empty one is as good as none. The error wraps errBadCheckpoint.
func decodeCheckpoint(b []byte) (map[key]int64, error) {
	b = bytes.TrimRight(b, "\n")
	if len(b) == 0 {
		return map[key]int64{}, nil
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 2 || lines[0] != "0" {
		return nil, fmt.Errorf("version %q: %w", lines[0], errBadCheckpoint)
	}
	if n, err := strconv.Atoi(lines[1]); err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("%q entries in %d lines: %w", lines[1], len(lines)-2, errBadCheckpoint)
	}
	entries := make(map[key]int64, len(lines)-2)
	for _, line := range lines[2:] {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %q: %w", line, errBadCheckpoint)
		}
		partition, err1 := strconv.ParseInt(fields[1], 10, 32)
		offset, err2 := strconv.ParseInt(fields[2], 10, 64)
		if err1 != nil || err2 != nil || partition < 0 || offset < 0 {
			return nil, fmt.Errorf("line %q: %w", line, errBadCheckpoint)
		}
		entries[key{fields[0], int32(partition)}] = offset
	}
	return entries, nil
}

// readCheckpoint reads a checkpoint file of the directory. A missing or malformed one is empty: offsets then count as
// unknown, which costs recovery time but no record.
func (d *dir) readCheckpoint(name string) (map[key]int64, error) {
	raw, err := os.ReadFile(filepath.Join(d.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return map[key]int64{}, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := decodeCheckpoint(raw)
	if err != nil {
		d.logger.Warn("ignoring a checkpoint file: " + name + ": " + err.Error())
		return map[key]int64{}, nil
	}
	return entries, nil
}
