package logfiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// A segment as its indexes see it: where each batch lies, in order.
type outline []struct {
	position, base, last, maxMs int64
}

// outlineOf scans the segment beside an index file. It is nil when there is none: then only the
// index itself is checked.
func (d *dump) outlineOf(index string) (outline, error) {
	path := strings.TrimSuffix(index, filepath.Ext(index)) + ".log"
	var all outline
	for position, batch := range batches(path) {
		switch {
		case errors.Is(batch.err, fs.ErrNotExist):
			return nil, nil
		case batch.err != nil: // dumping the segment tells
			return all, nil
		}
		if err := d.ctx.Err(); err != nil {
			return nil, err
		}
		all = append(all, struct{ position, base, last, maxMs int64 }{position, batch.BaseOffset(), batch.LastOffset(), batch.MaxTimestamp()})
	}
	return all, nil
}

// batchOf returns the index of the batch that holds offset, or -1.
func (o outline) batchOf(offset int64) int {
	i := sort.Search(len(o), func(i int) bool { return o[i].last >= offset })
	if i == len(o) || o[i].base > offset {
		return -1
	}
	return i
}

// batchAt returns the index of the batch that begins at position, or -1.
func (o outline) batchAt(position int64) int {
	i := sort.Search(len(o), func(i int) bool { return o[i].position >= position })
	if i == len(o) || o[i].position != position {
		return -1
	}
	return i
}

// entries reads a file of entries of width bytes each, whose base offset is in its name. A running
// server keeps room for more, which is zeros: entries end there.
func (d *dump) entries(path string, width int) (entries [][]byte, base int64, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if base, err = strconv.ParseInt(name, 10, 64); err != nil {
		d.fault(path, "the name is not an offset")
	}
	for ; len(raw) >= width; raw = raw[width:] {
		if len(bytes.Trim(raw[:width], "\x00")) == 0 {
			return entries, base, nil
		}
		entries = append(entries, raw[:width])
	}
	if len(raw) > 0 {
		d.fault(path, "%d bytes after the last whole entry", len(raw))
	}
	return entries, base, nil
}

type offsetEntry struct {
	File     string `json:"file"`
	Offset   int64  `json:"offset"` // the last one of the batch at the position
	Position int64  `json:"position"`
}

func (offsetEntry) columns() []column { return []column{{"OFFSET", 20}, {"POSITION", 10}} }
func (e offsetEntry) cells() []any    { return []any{e.Offset, e.Position} }

func (d *dump) offsetIndex(path string) error {
	segment, err := d.outlineOf(path)
	if err != nil {
		return err
	}
	entries, base, err := d.entries(path, 8)
	if err != nil {
		return err
	}
	before := offsetEntry{Offset: -1, Position: -1}
	for _, raw := range entries {
		entry := offsetEntry{path, base + int64(int32(binary.BigEndian.Uint32(raw))), int64(int32(binary.BigEndian.Uint32(raw[4:])))}
		if err := d.emit.row(entry); err != nil {
			return err
		}
		if entry.Offset <= before.Offset || entry.Position <= before.Position {
			d.fault(path, "offset %d at %d does not come after offset %d at %d", entry.Offset, entry.Position, before.Offset, before.Position)
		}
		before = entry
		if segment == nil {
			continue
		}
		if i := segment.batchAt(entry.Position); i < 0 {
			d.fault(path, "offset %d: no batch begins at %d", entry.Offset, entry.Position)
		} else if entry.Offset < segment[i].base || entry.Offset > segment[i].last {
			d.fault(path, "offset %d: the batch at %d holds %d-%d", entry.Offset, entry.Position, segment[i].base, segment[i].last)
		}
	}
	return nil
}

type timeEntry struct {
	File      string `json:"file"`
	Timestamp int64  `json:"timestamp"` // milliseconds since 1970
	Offset    int64  `json:"offset"`
}

func (timeEntry) columns() []column { return []column{{"TIMESTAMP", -24}, {"OFFSET", 20}} }
func (e timeEntry) cells() []any    { return []any{instant(e.Timestamp), e.Offset} }

func (d *dump) timeIndex(path string) error {
	segment, err := d.outlineOf(path)
	if err != nil {
		return err
	}
	entries, base, err := d.entries(path, 12)
	if err != nil {
		return err
	}
	before := timeEntry{Timestamp: -1, Offset: -1}
	for _, raw := range entries {
		entry := timeEntry{path, int64(binary.BigEndian.Uint64(raw)), base + int64(int32(binary.BigEndian.Uint32(raw[8:])))}
		if err := d.emit.row(entry); err != nil {
			return err
		}
		if entry.Timestamp <= before.Timestamp || entry.Offset <= before.Offset {
			d.fault(path, "timestamp %d of offset %d does not come after timestamp %d of offset %d", entry.Timestamp, entry.Offset, before.Timestamp, before.Offset)
		}
		before = entry
		if segment == nil {
			continue
		}
		if i := segment.batchOf(entry.Offset); i < 0 {
			d.fault(path, "timestamp %d: the segment has no offset %d", entry.Timestamp, entry.Offset)
		} else if segment[i].maxMs != entry.Timestamp {
			d.fault(path, "offset %d: its batch goes to timestamp %d, not %d", entry.Offset, segment[i].maxMs, entry.Timestamp)
		}
	}
	return nil
}

const txnEntrySize = 34

type txnEntry struct {
	File       string `json:"file"`
	Version    int16  `json:"version"`
	ProducerID int64  `json:"producer_id"`
	First      int64  `json:"first_offset"`
	Last       int64  `json:"last_offset"`
	Stable     int64  `json:"last_stable_offset"`
}

func (txnEntry) columns() []column {
	return []column{{"PRODUCER", 20}, {"FIRST OFFSET", 20}, {"LAST OFFSET", 20}, {"LAST STABLE OFFSET", 20}}
}
func (e txnEntry) cells() []any { return []any{e.ProducerID, e.First, e.Last, e.Stable} }

func (d *dump) txnIndex(path string) error {
	entries, _, err := d.entries(path, txnEntrySize)
	if err != nil {
		return err
	}
	last := int64(-1)
	for _, raw := range entries {
		at := func(i int) int64 { return int64(binary.BigEndian.Uint64(raw[i:])) }
		entry := txnEntry{path, int16(binary.BigEndian.Uint16(raw)), at(2), at(10), at(18), at(26)}
		if err := d.emit.row(entry); err != nil {
			return err
		}
		if entry.Version != 0 {
			d.fault(path, "entry of version %d", entry.Version)
		}
		if entry.First > entry.Last || entry.Last <= last {
			d.fault(path, "transaction %d-%d of producer %d is out of order", entry.First, entry.Last, entry.ProducerID)
		}
		last = entry.Last
	}
	return nil
}
