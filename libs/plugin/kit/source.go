package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// Tests that wait for these limits change them.
var (
	// firstRecordLimit is how long a source may take to its first record.
	firstRecordLimit = 10 * time.Second
	// stopLimit is how long a task may take to stop.
	stopLimit = 5 * time.Second
)

const (
	// quiet is how long a source may take to each other record.
	quiet = 300 * time.Millisecond
	// The reading ends after so many records, and so long after the first.
	enoughRecords = 200
	enoughTime    = 2 * time.Second
)

// placed is a record with its position.
type placed struct {
	data.Record
	partition, offset json.RawMessage
}

// stored are offsets by partition.
type stored map[string]json.RawMessage

func (o stored) read(_ context.Context, partitions []json.RawMessage) ([]json.RawMessage, error) {
	offsets := make([]json.RawMessage, len(partitions))
	for i, p := range partitions {
		if err := checkPosition(p); err != nil {
			return nil, err
		}
		offsets[i] = o[string(p)]
	}
	return offsets, nil
}

// read runs a task from offsets on, and returns what it reads until it is quiet, or enough.
func (s *subject) read(ctx context.Context, from stored) ([]placed, error) {
	config, err := s.taskConfig(ctx)
	if err != nil {
		return nil, err
	}
	task, err := s.StartSource(ctx, remote.Task{Connector: "kit", Config: config, ReadOffsets: from.read})
	if err != nil {
		return nil, err
	}
	var records []placed
	limit := firstRecordLimit
	var first time.Time
	for len(records) < enoughRecords && (len(records) == 0 || time.Since(first) < enoughTime) {
		polling, cancel := context.WithTimeout(ctx, limit)
		batch, err := task.Poll(polling)
		late := polling.Err() != nil
		cancel()
		var f *remote.Fault
		if late && batch == nil {
			break
		} else if errors.As(err, &f) && f.Retriable {
			continue
		} else if err != nil {
			return nil, errors.Join(err, stopTask(ctx, task.Stop))
		}
		if len(records) == 0 {
			first = time.Now()
		}
		for i, r := range batch.Records {
			partition, offset := batch.Position(i)
			records = append(records, placed{r, partition, offset})
		}
		limit = quiet
	}
	return records, stopTask(ctx, task.Stop)
}

func reads(ctx context.Context, s *subject) (string, error) {
	records, err := s.read(ctx, stored{})
	if err != nil {
		return "", err
	}
	if len(records) == 0 {
		return "", fmt.Errorf("no record within %v", firstRecordLimit)
	}
	positions := 0
	for i, r := range records {
		if err := r.check(); err != nil {
			return "", fmt.Errorf("record %d: %w", i, err)
		}
		if r.offset != nil {
			positions++
		}
	}
	return fmt.Sprintf("%d records, %d with an offset", len(records), positions), nil
}

func (p *placed) check() error {
	if p.Topic == "" {
		return errors.New("it has no topic")
	}
	values := []data.Value{p.Key, p.Value}
	for _, h := range p.Headers {
		values = append(values, h.Value)
	}
	for _, v := range values {
		if v.Schema != nil {
			if err := v.Schema.Check(); err != nil {
				return err
			}
		}
		if err := v.Validate(); err != nil {
			return err
		}
	}
	for _, position := range []json.RawMessage{p.partition, p.offset} {
		if position == nil {
			continue
		}
		if err := checkPosition(position); err != nil {
			return err
		}
	}
	return nil
}

// resumes reads once, and then again from an offset in the middle: what comes first must be what came next.
func resumes(ctx context.Context, s *subject) (string, error) {
	records, err := s.read(ctx, stored{})
	if err != nil {
		return "", err
	}
	// The last offset but those at the end: something is to come after it.
	middle := -1
	for i := range records[:max(len(records)-1, 0)] {
		if records[i].offset != nil && (middle < 0 || i <= len(records)/2) {
			middle = i
		}
	}
	if middle < 0 {
		return "none of its records has an offset and another one after it", nil
	}
	from := stored{}
	for _, r := range records[:middle+1] {
		if r.offset != nil {
			from[string(r.partition)] = r.offset
		}
	}
	again, err := s.read(ctx, from)
	if err != nil {
		return "", err
	}
	// By partition: which one is read first is the source's to choose.
	partition := records[middle].partition
	want := slices.IndexFunc(records[middle+1:], func(p placed) bool { return string(p.partition) == string(partition) })
	if want < 0 {
		return "nothing came after its offset in the same partition", nil
	}
	expected := records[middle+1+want]
	got := slices.IndexFunc(again, func(p placed) bool { return string(p.partition) == string(partition) })
	switch {
	case got < 0:
		return "", fmt.Errorf("after the offset %s nothing comes", records[middle].offset)
	case !again[got].Key.Equal(expected.Key) || !again[got].Value.Equal(expected.Value):
		return "", fmt.Errorf("after the offset %s comes %.100s, not %.100s", records[middle].offset, fmt.Sprint(again[got].Value.V), fmt.Sprint(expected.Value.V))
	}
	return fmt.Sprintf("from record %d of %d on", middle+1, len(records)), nil
}

func stopsSource(ctx context.Context, s *subject) (string, error) {
	config, err := s.taskConfig(ctx)
	if err != nil {
		return "", err
	}
	task, err := s.StartSource(ctx, remote.Task{Connector: "kit", Config: config, ReadOffsets: stored{}.read})
	if err != nil {
		return "", err
	}
	polling, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	for err == nil { // until it waits, or that long
		_, err = task.Poll(polling)
	}
	if err := task.StopPolling(ctx); err != nil {
		return "", errors.Join(err, stopTask(ctx, task.Stop))
	}
	if err := task.Commit(ctx); err != nil && !isFault(err) {
		return "", errors.Join(fmt.Errorf("committing after the last poll: %w", err), stopTask(ctx, task.Stop))
	}
	return "", stopTask(ctx, task.Stop)
}
