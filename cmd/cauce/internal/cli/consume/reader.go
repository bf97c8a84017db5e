package consume

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/position"
)

// reader prints records until every range is read, --count is reached, or nothing comes any more.
type reader struct {
	*consumption
	client *kgo.Client
	ranges map[position.Partition]position.Range
	out    *bufio.Writer
	write  func([]byte, *kgo.Record) []byte

	open    int // partitions not yet read to their end
	printed int64
	buffer  []byte
}

func (r *reader) run(ctx context.Context) error {
	for _, span := range r.ranges {
		if r.follow || span.Start < span.End {
			r.open++
		}
	}
	for r.open > 0 && !r.enough() {
		fetches, err := r.poll(ctx)
		if err != nil || fetches == nil {
			return err
		}
		if err := r.print(fetches); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) enough() bool { return r.count > 0 && r.printed >= r.count }

// poll waits for records. No fetches and no error mean that the command is done.
func (r *reader) poll(parent context.Context) (kgo.Fetches, error) {
	patience := r.idle
	if !r.follow {
		patience = r.session.Timeout
	}
	ctx, cancel := parent, context.CancelFunc(func() {})
	if patience > 0 {
		ctx, cancel = context.WithTimeout(parent, patience)
	}
	defer cancel()
	fetches := r.client.PollFetches(ctx)
	switch {
	case parent.Err() != nil && r.follow && r.count == 0:
		return nil, nil
	case parent.Err() != nil:
		return nil, parent.Err()
	case ctx.Err() != nil && fetches.Empty():
		return nil, r.idled(patience)
	}
	for _, fault := range fetches.Errors() {
		if !errors.Is(fault.Err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("fetch %s[%d]: %w", fault.Topic, fault.Partition, exit.Answer(fault.Err, ""))
		}
	}
	return fetches, nil
}

// idled says what it means that nothing came for a while.
func (r *reader) idled(patience time.Duration) error {
	switch {
	case !r.follow:
		return exit.With(exit.Timeout, fmt.Errorf("no record came for %v before the end was reached", patience))
	case r.count > 0:
		return exit.With(exit.Timeout, fmt.Errorf("no record came for %v after %d of %d", patience, r.printed, r.count))
	}
	return nil
}

func (r *reader) print(fetches kgo.Fetches) error {
	for iter := fetches.RecordIter(); !iter.Done() && !r.enough(); {
		record := iter.Next()
		p := position.Partition{Topic: record.Topic, ID: record.Partition}
		span := r.ranges[p]
		if !r.follow && span.Start >= span.End {
			continue
		}
		if r.follow || record.Offset < span.End {
			if err := r.printRecord(record); err != nil {
				return err
			}
		}
		if !r.follow && record.Offset >= span.End-1 {
			r.finish(p)
		}
	}
	// What came is shown before waiting for more.
	return r.out.Flush()
}

func (r *reader) printRecord(record *kgo.Record) error {
	if record.Attrs.IsControl() {
		return nil
	}
	r.buffer = r.write(r.buffer[:0], record)
	r.printed++
	_, err := r.out.Write(r.buffer)
	return err
}

// finish marks a partition as read, so that the client does not fetch what nobody wants.
func (r *reader) finish(p position.Partition) {
	span := r.ranges[p]
	r.ranges[p] = position.Range{Start: span.End, End: span.End}
	r.client.PauseFetchPartitions(map[string][]int32{p.Topic: {p.ID}})
	r.open--
}
