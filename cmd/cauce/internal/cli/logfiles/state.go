package logfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const snapshotEntrySize = 46

type producerEntry struct {
	File             string `json:"file"`
	ProducerID       int64  `json:"producer_id"`
	Epoch            int16  `json:"producer_epoch"`
	LastSequence     int32  `json:"last_sequence"`
	LastOffset       int64  `json:"last_offset"`
	OffsetDelta      int32  `json:"offset_delta"` // of the last batch
	Timestamp        int64  `json:"timestamp"`
	CoordinatorEpoch int32  `json:"coordinator_epoch"`
	TxnStart         int64  `json:"transaction_start"` // -1: no open transaction
}

func (producerEntry) columns() []column {
	return []column{{"PRODUCER", 20}, {"EPOCH", 5}, {"LAST SEQUENCE", 13}, {"LAST OFFSET", 20}, {"OFFSET DELTA", 12},
		{"LAST TIMESTAMP", -24}, {"COORDINATOR EPOCH", 17}, {"OPEN SINCE", 10}}
}

func (e producerEntry) cells() []any {
	open := ""
	if e.TxnStart >= 0 {
		open = strconv.FormatInt(e.TxnStart, 10)
	}
	return []any{e.ProducerID, e.Epoch, e.LastSequence, e.LastOffset, e.OffsetDelta, instant(e.Timestamp), e.CoordinatorEpoch, open}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (d *dump) producerSnapshot(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	be := binary.BigEndian
	if len(raw) < 10 || be.Uint16(raw) != 1 {
		d.fault(path, "not a snapshot of version 1")
		return nil
	}
	if crc := crc32.Checksum(raw[6:], castagnoli); crc != be.Uint32(raw[2:]) {
		d.fault(path, "the CRC is %08x, not %08x", crc, be.Uint32(raw[2:]))
	}
	count, entries := int64(be.Uint32(raw[6:])), raw[10:]
	if int64(len(entries)) != count*snapshotEntrySize {
		d.fault(path, "%d entries take %d bytes, but there are %d", count, count*snapshotEntrySize, len(entries))
	}
	for ; len(entries) >= snapshotEntrySize; entries = entries[snapshotEntrySize:] {
		err := d.emit.row(producerEntry{
			File:             path,
			ProducerID:       int64(be.Uint64(entries)),
			Epoch:            int16(be.Uint16(entries[8:])),
			LastSequence:     int32(be.Uint32(entries[10:])),
			LastOffset:       int64(be.Uint64(entries[14:])),
			OffsetDelta:      int32(be.Uint32(entries[22:])),
			Timestamp:        int64(be.Uint64(entries[26:])),
			CoordinatorEpoch: int32(be.Uint32(entries[34:])),
			TxnStart:         int64(be.Uint64(entries[38:])),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkpointLines reads a checkpoint: a line with the version 0, one with the number of entries, and
// the entries, of so many words each.
func (d *dump) checkpointLines(path string, words int) ([][]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" {
		d.fault(path, "not a checkpoint of version 0")
		return nil, nil
	}
	var entries [][]string
	for i, line := range lines[2:] {
		entry := strings.Fields(line)
		if len(entry) != words {
			d.fault(path, "line %d: %q does not have %d words", i+3, line, words)
			continue
		}
		entries = append(entries, entry)
	}
	if count, err := strconv.Atoi(lines[1]); err != nil || count != len(lines)-2 {
		d.fault(path, "%d entries, but the second line says %q", len(lines)-2, lines[1])
	}
	return entries, nil
}

type epochEntry struct {
	File  string `json:"file"`
	Epoch int64  `json:"leader_epoch"`
	Start int64  `json:"start_offset"`
}

func (epochEntry) columns() []column { return []column{{"EPOCH", 10}, {"START OFFSET", 20}} }
func (e epochEntry) cells() []any    { return []any{e.Epoch, e.Start} }

func (d *dump) epochs(path string) error {
	lines, err := d.checkpointLines(path, 2)
	if err != nil {
		return err
	}
	before := epochEntry{Epoch: -1, Start: -1}
	for _, words := range lines {
		epoch, err1 := strconv.ParseInt(words[0], 10, 32)
		start, err2 := strconv.ParseInt(words[1], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			d.fault(path, "%s: %w", strings.Join(words, " "), err)
			continue
		}
		entry := epochEntry{path, epoch, start}
		if entry.Epoch <= before.Epoch || entry.Start < before.Start {
			d.fault(path, "epoch %d from %d does not come after epoch %d from %d", entry.Epoch, entry.Start, before.Epoch, before.Start)
		}
		before = entry
		if err := d.emit.row(entry); err != nil {
			return err
		}
	}
	return nil
}

type checkpointEntry struct {
	File      string `json:"file"`
	Topic     string `json:"topic"`
	Partition int64  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func (checkpointEntry) columns() []column {
	return []column{{"TOPIC", -30}, {"PARTITION", 9}, {"OFFSET", 20}}
}
func (e checkpointEntry) cells() []any { return []any{e.Topic, e.Partition, e.Offset} }

func (d *dump) checkpoint(path string) error {
	lines, err := d.checkpointLines(path, 3)
	if err != nil {
		return err
	}
	for _, words := range lines {
		partition, err1 := strconv.ParseInt(words[1], 10, 32)
		offset, err2 := strconv.ParseInt(words[2], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			d.fault(path, "%s: %w", strings.Join(words, " "), err)
			continue
		}
		if err := d.emit.row(checkpointEntry{path, words[0], partition, offset}); err != nil {
			return err
		}
	}
	return nil
}

type property struct {
	File  string `json:"file"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (property) columns() []column { return []column{{"KEY", -20}, {"VALUE", -1}} }
func (p property) cells() []any    { return []any{p.Key, p.Value} }

// properties shows key=value and "key: value" lines; comments are left out.
func (d *dump) properties(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		at := strings.IndexAny(line, "=:")
		switch {
		case line == "" || line[0] == '#':
		case at < 0:
			d.fault(path, "%q is no property", line)
		default:
			if err := d.emit.row(property{path, line[:at], strings.TrimSpace(line[at+1:])}); err != nil {
				return err
			}
		}
	}
	return nil
}

type folderRow struct {
	Folder   string `json:"folder"`
	Segments int    `json:"segments"`
	Bytes    int64  `json:"bytes"`        // of all segments
	First    int64  `json:"first_offset"` // of the first segment; -1: no segment
}

func (folderRow) columns() []column {
	return []column{{"SEGMENTS", 8}, {"BYTES", 14}, {"FIRST OFFSET", 20}, {"FOLDER", -1}}
}
func (f folderRow) cells() []any { return []any{f.Segments, f.Bytes, f.First, f.Folder} }

// folders summarizes the folders of partitions inside a log directory; other folders are left out.
func (d *dump) folders(dir string, names []string) error {
	names = slices.DeleteFunc(names, func(name string) bool {
		_, _, ok := splitFolder(name)
		return !ok
	})
	if len(names) == 0 {
		return nil
	}
	d.emit.begin(fmt.Sprintf("%s  (%d partitions)", dir, len(names)))
	for _, name := range names {
		row, err := d.folder(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := d.emit.row(row); err != nil {
			return err
		}
	}
	return nil
}

func (d *dump) folder(path string) (folderRow, error) {
	summary := folderRow{Folder: path, First: -1}
	segments, err := filepath.Glob(filepath.Join(path, "*.log"))
	if err != nil {
		return summary, err
	}
	for i, segment := range segments { // in order of their names
		info, err := os.Stat(segment)
		if errors.Is(err, os.ErrNotExist) { // deleted meanwhile
			continue
		}
		if err != nil {
			return summary, err
		}
		summary.Segments++
		summary.Bytes += info.Size()
		if i > 0 {
			continue
		}
		if summary.First, err = strconv.ParseInt(strings.TrimSuffix(filepath.Base(segment), ".log"), 10, 64); err != nil {
			d.fault(segment, "the name is not an offset")
		}
	}
	return summary, nil
}
