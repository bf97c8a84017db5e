package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/tests/devserver"
	"github.com/cauce-stream/cauce/tests/lab/internal/numbered"
)

// folder is that of a replica of partition 0.
type folder string

func folderOf(c *numbered.Cluster, node int32) folder {
	return folder(filepath.Join(c.Dir, strconv.Itoa(int(node)), "data", "log", topic+"-0"))
}

// list prints the files of the folder with their sizes.
func (f folder) list() error {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Printf("  %-32s %12d bytes\n", e.Name(), info.Size())
	}
	return nil
}

// segment is what one is made of.
type segment struct {
	path                       string // of the .log file
	first, records             int64
	batches                    int64
	bytes, offsets, timestamps int64 // of the .log file, the offset index, the time index
	codecs                     []string
}

// batch is what `cauce log dump` says of one.
type batch struct {
	Position, Bytes int64
	BaseOffset      int64 `json:"base_offset"`
	LastOffset      int64 `json:"last_offset"`
	Count           int64
	Codec           string
	MaxTimestamp    int64 `json:"max_timestamp"`
	Valid           bool
	ProducerID      int64 `json:"producer_id"`
	ProducerEpoch   int16 `json:"producer_epoch"`
	BaseSequence    int32 `json:"base_sequence"`
	LeaderEpoch     int32 `json:"leader_epoch"`
}

// segments are those of the folder, in order.
func (f folder) segments(ctx context.Context) ([]segment, error) {
	paths, err := filepath.Glob(filepath.Join(string(f), "*.log"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths) // the names are offsets of 20 digits
	var all []segment
	for _, path := range paths {
		s, err := read(ctx, path)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func read(ctx context.Context, path string) (segment, error) {
	s := segment{path: path}
	for _, file := range []struct {
		name string
		size *int64
	}{{path, &s.bytes}, {beside(path, ".index"), &s.offsets}, {beside(path, ".timeindex"), &s.timestamps}} {
		info, err := os.Stat(file.name)
		if err != nil {
			return s, err
		}
		*file.size = info.Size()
	}
	first, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), ".log"), 10, 64)
	if err != nil {
		return s, fmt.Errorf("%s is not named by an offset: %w", path, err)
	}
	s.first = first
	batches, err := dump[batch](ctx, path)
	if err != nil {
		return s, err
	}
	for _, b := range batches {
		if !b.Valid {
			return s, fmt.Errorf("%s: the batch at %d has another checksum than it says", path, b.Position)
		}
		s.batches++
		s.records += b.Count
		if !slices.Contains(s.codecs, b.Codec) {
			s.codecs = append(s.codecs, b.Codec)
		}
	}
	return s, nil
}

func beside(path, suffix string) string { return strings.TrimSuffix(path, ".log") + suffix }

// dump is what `cauce log dump` prints of a file.
func dump[T any](ctx context.Context, path string) ([]T, error) {
	binary, err := devserver.Binary()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, "log", "dump", "-o", "json", path)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cauce log dump %s: %w: %s", path, err, said.String())
	}
	var all []T
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var one T
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cauce log dump %s: %w", path, err)
		}
		all = append(all, one)
	}
}

func printSegments(segments []segment) {
	fmt.Printf("  %12s %8s %8s %12s %10s %11s %6s %13s\n", "first offset", "records", "batches", ".log bytes", ".index", ".timeindex", "codec", "bytes/record")
	for _, s := range segments {
		perRecord := "-"
		if s.records > 0 {
			perRecord = fmt.Sprint(s.bytes / s.records)
		}
		fmt.Printf("  %12d %8d %8d %12d %10d %11d %6s %13s\n", s.first, s.records, s.batches, s.bytes, s.offsets, s.timestamps, strings.Join(s.codecs, ","), perRecord)
	}
}

// find goes the way of a fetch to an offset: by the segments' names, by the index, and then batch by batch.
func (f folder) find(ctx context.Context, segments []segment, offset int64) error {
	i, found := slices.BinarySearchFunc(segments, offset, func(s segment, offset int64) int { return int(s.first - offset) })
	if !found {
		i--
	}
	s := segments[i]
	type entry struct{ Offset, Position int64 }
	index, err := dump[entry](ctx, beside(s.path, ".index"))
	if err != nil {
		return err
	}
	from := entry{Offset: s.first}
	for _, e := range index {
		if e.Offset <= offset {
			from = e
		}
	}
	batches, err := dump[batch](ctx, s.path)
	if err != nil {
		return err
	}
	passed := 0
	for _, b := range batches {
		switch {
		case b.Position < from.Position:
		case b.LastOffset < offset:
			passed++
		default:
			fmt.Printf("offset %d: segment %s; its index knows offset %d at byte %d; the batch behind %d more has offsets %d to %d, %d bytes, %s,\n"+
				"  of producer %d epoch %d from sequence %d on, leader epoch %d, newest record %s\n",
				offset, filepath.Base(s.path), from.Offset, from.Position, passed, b.BaseOffset, b.LastOffset, b.Bytes, b.Codec,
				b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.LeaderEpoch, clock(b.MaxTimestamp))
			return nil
		}
	}
	return fmt.Errorf("no batch of %s has offset %d", s.path, offset)
}

// sum is the SHA-256 of all segments, one behind the other.
func (f folder) sum() (string, error) {
	paths, err := filepath.Glob(filepath.Join(string(f), "*.log"))
	if err != nil {
		return "", err
	}
	slices.Sort(paths)
	hash := sha256.New()
	for _, path := range paths {
		bytes, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		hash.Write(bytes)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
