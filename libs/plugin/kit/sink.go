package kit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// sample returns the records to put, their partitions, and the offsets after them.
func (s *subject) sample() ([]plugin.SinkRecord, []plugin.TopicPartition, map[plugin.TopicPartition]int64) {
	plain := s.Records
	if len(plain) == 0 {
		plain = defaultRecords()
	}
	var records []plugin.SinkRecord
	offsets := map[plugin.TopicPartition]int64{}
	for _, r := range plain {
		p := plugin.TopicPartition{Topic: r.Topic, Partition: r.Partition}
		offsets[p] = max(offsets[p], r.Offset+1)
		records = append(records, plugin.SinkRecord{Record: r, Original: p})
	}
	return records, slices.Collect(maps.Keys(offsets)), offsets
}

// withSink runs a task for as long as use takes.
func (s *subject) withSink(ctx context.Context, use func(*remote.SinkTask) error) error {
	config, err := s.taskConfig(ctx)
	if err != nil {
		return err
	}
	task, err := s.StartSink(ctx, remote.Task{Connector: "kit", Config: config, Reports: true})
	if err != nil {
		return err
	}
	err = use(task)
	return errors.Join(err, stopTask(ctx, task.Stop))
}

// putAll puts records until they are taken.
func putAll(ctx context.Context, task *remote.SinkTask, records []plugin.SinkRecord) error {
	for {
		_, err := task.Put(ctx, records)
		var f *remote.Fault
		if errors.As(err, &f) && f.Retriable && ctx.Err() == nil {
			continue
		} else if err != nil {
			return fmt.Errorf("putting %d records: %w", len(records), err)
		}
		return nil
	}
}

func writes(ctx context.Context, s *subject) (string, error) {
	records, partitions, offsets := s.sample()
	err := s.withSink(ctx, func(task *remote.SinkTask) error {
		if _, err := task.Open(ctx, partitions); err != nil {
			return fmt.Errorf("opening: %w", err)
		}
		for _, batch := range [][]plugin.SinkRecord{records, nil, records} {
			if err := putAll(ctx, task, batch); err != nil {
				return err
			}
		}
		if err := preCommit(ctx, task, offsets); err != nil {
			return err
		}
		_, err := task.Close(ctx, partitions)
		return err
	})
	return fmt.Sprintf("%d records, twice", len(records)), err
}

func preCommit(ctx context.Context, task *remote.SinkTask, offsets map[plugin.TopicPartition]int64) error {
	safe, _, err := task.PreCommit(ctx, offsets)
	if err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	for p, offset := range safe {
		if after, ours := offsets[p]; !ours || offset > after {
			return fmt.Errorf("it calls offset %d of %s-%d safe, and was given the records before %d", offset, p.Topic, p.Partition, after)
		}
	}
	return nil
}

// follows has one partition after the other come, get its records, and go.
func follows(ctx context.Context, s *subject) (string, error) {
	records, partitions, offsets := s.sample()
	err := s.withSink(ctx, func(task *remote.SinkTask) error {
		for _, p := range partitions {
			one := []plugin.TopicPartition{p}
			var batch []plugin.SinkRecord
			for _, r := range records {
				if r.Original == p {
					batch = append(batch, r)
				}
			}
			if _, err := task.Open(ctx, one); err != nil {
				return fmt.Errorf("opening %s-%d: %w", p.Topic, p.Partition, err)
			}
			if err := putAll(ctx, task, batch); err != nil {
				return err
			}
			if err := preCommit(ctx, task, map[plugin.TopicPartition]int64{p: offsets[p]}); err != nil {
				return err
			}
			if _, err := task.Close(ctx, one); err != nil {
				return fmt.Errorf("closing %s-%d: %w", p.Topic, p.Partition, err)
			}
		}
		return nil
	})
	return fmt.Sprintf("%d partitions", len(partitions)), err
}

func stopsSink(ctx context.Context, s *subject) (string, error) {
	if err := s.withSink(ctx, func(*remote.SinkTask) error { return nil }); err != nil {
		return "", err
	}
	records, partitions, _ := s.sample()
	return "", s.withSink(ctx, func(task *remote.SinkTask) error {
		if _, err := task.Open(ctx, partitions); err != nil {
			return err
		}
		return putAll(ctx, task, records)
	})
}
