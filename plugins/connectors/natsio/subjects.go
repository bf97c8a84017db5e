package natsio

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

// subjectReader listens to subjects as such.
type subjectReader struct {
	subjects           []string
	queue              string
	maxCount, maxBytes int
	batch              int
	maker              maker
	messages           chan *nats.Msg
	flushing           time.Duration
}

func newSubjectReader(v configdef.Values, m maker) *subjectReader {
	return &subjectReader{subjects: v.List(subjectsKey), queue: v.String(queueKey), maxCount: int(v.Int(bufferCountKey)), maxBytes: int(v.Int(bufferBytesKey)),
		batch: int(v.Int(batchKey)), maker: m, flushing: v.Millis(timeoutKey)}
}

// open subscribes, and returns when the server knows that.
func (s *subjectReader) open(ctx context.Context, c *connection) error {
	messages := make(chan *nats.Msg, s.batch)
	s.messages = messages
	for _, subject := range s.subjects {
		// What waits does so in the subscription, which has bounds.
		subscription, err := c.QueueSubscribe(subject, s.queue, func(m *nats.Msg) {
			select {
			case messages <- m:
			case <-c.closed:
			}
		})
		if err == nil {
			err = subscription.SetPendingLimits(s.maxCount, s.maxBytes)
		}
		if err != nil {
			return fmt.Errorf("subscribing to %s: %w", subject, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.flushing)
	defer cancel()
	return c.FlushWithContext(ctx)
}

// read waits for a message, and returns what else has come by then.
func (s *subjectReader) read(ctx context.Context, c *connection) ([]plugin.SourceRecord, error) {
	var records []plugin.SourceRecord
	add := func(m *nats.Msg) error {
		r, err := s.maker.record(m.Subject, m.Header, m.Data, time.Now())
		records = append(records, plugin.SourceRecord{Record: r})
		return err
	}
	var bytes int
	select {
	case m := <-s.messages:
		bytes = len(m.Data)
		if err := add(m); err != nil {
			return nil, err
		}
	case <-c.closed:
		return nil, fmt.Errorf("messages may be lost: %w", nats.ErrConnectionClosed)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for len(records) < s.batch && bytes < maxBatchBytes {
		select {
		case m := <-s.messages:
			bytes += len(m.Data)
			if err := add(m); err != nil {
				return nil, err
			}
		default:
			return records, nil
		}
	}
	return records, nil
}

// stored has nobody to tell.
func (s *subjectReader) stored(context.Context, any) error { return nil }

func (s *subjectReader) close() {}
