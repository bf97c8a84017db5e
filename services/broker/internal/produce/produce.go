// Package produce answers Produce: batches are validated and appended as they came, on the goroutine that read
// them, and readers that wait for them are served after the producer has its answer. Where the answer has to wait for
// followers (acks=all), the goroutine goes on to the next request, and whoever commits the last batch answers.
package produce

import (
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/services/broker/internal/ack"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

const (
	acksAll    = -1
	acksLeader = 1
	acksNone   = 0
)

// Config is how transactions are dealt with.
type Config struct {
	// Verifies says whether coordinators are asked about transactions before the first write to a partition (Kafka config
	// transaction.partition.verification.enable).
	Verifies func() bool
	Checker  Checker
}

// Service answers Produce requests.
type Service struct {
	cfg   Config
	parts *partition.Set
	clock ack.Clock
	pool  sync.Pool
}

// New makes a Service over the broker's partitions.
func New(cfg Config, parts *partition.Set) *Service {
	s := &Service{cfg: cfg, parts: parts}
	s.pool.New = func() any {
		p := &produce{service: s}
		p.reply = p.respondAfterWait
		p.protected = func() { p.r.Protect(p.reply) }
		p.expire = p.giveUp
		return p
	}
	return s
}

// produce is one request on its way.
type produce struct {
	service *Service
	request kmsg.ProduceRequest
	r       *server.Request
	results []result
	permits []permit       // for a transactional request that is verified, parallel to results
	done    partition.Done // waits of others that the appends have ended
	waiting ack.Request
	leaders wire.Leaders

	reply, protected, expire func() // respondAfterWait, the same against panics, and giveUp, bound once
}

// result is what the response says of one partition.
type result struct {
	partition *partition.Partition // nil for a partition that is not here
	info      log.AppendInfo
	bytes     int64 // appended
	err       error
	wait      ack.Wait
	waits     bool
}

// Handle answers one Produce request; it runs on the connection's reading goroutine.
func (s *Service) Handle(r *server.Request) {
	p := s.pool.Get().(*produce)
	p.request = kmsg.ProduceRequest{Topics: p.request.Topics[:0]} // fields that a version lacks must not be the last request's
	if err := r.Decode(&p.request); err != nil {
		r.Fail(err)
		s.recycle(p)
		return
	}
	p.r = r
	p.join()
	if s.isAhead(p) {
		r.Go(func() {
			s.awaitShards(r.Context(), p)
			r.Trace().Did("await shard")
			s.answer(p, r)
		})
		return
	}
	s.answer(p, r)
}

func (s *Service) answer(p *produce, r *server.Request) {
	now := time.Now()
	if p.request.TransactionID != nil && s.cfg.Verifies() {
		s.verify(r.Context(), p, now.UnixMilli())
		r.Trace().Did("verify transaction")
	}
	s.append(p, r, now.UnixMilli())
	r.Trace().Did("append")
	if p.request.Acks == acksAll && p.mustWait() {
		p.wait(now)
		return
	}
	p.respond()
	p.tellReaders()
	s.recycle(p)
}

func (p *produce) respond() {
	p.noteAnswer()
	if p.request.Acks != acksNone {
		p.r.Finish(p.appendResponse(p.r.Begin()), nil, nil)
	} else if err := p.firstError(); err != nil {
		// A producer that asked for no answer learns of a failure by the closed connection, as with Kafka.
		p.r.Fail(err)
	} else {
		p.r.ReplyNothing()
	}
}

func (s *Service) append(p *produce, r *server.Request, nowMs int64) {
	q := &p.request
	for i := range q.Topics {
		t := &q.Topics[i]
		for j := range t.Partitions {
			part := &t.Partitions[j]
			res := result{bytes: int64(len(part.Records))}
			if q.Version >= 13 && t.TopicID == (metadata.TopicID{}) {
				res.err = kerr.UnknownTopicID
			} else if res.partition, res.err = s.parts.Lookup(t.Topic, t.TopicID, part.Partition); res.err == nil {
				res.err = refusal(q, res.partition.Topic.Name, part)
			}
			switch {
			case res.err != nil:
			case part.UnknownTags.Len() > 0 && metadata.InternalTopic(res.partition.Topic.Name):
				res.info, res.err = appendShard(res.partition, part, nowMs, &p.done)
			default:
				var guard *log.Guard
				if len(p.permits) > 0 {
					permit := &p.permits[len(p.results)]
					guard, res.err = &permit.guard, permit.err
				}
				if res.err == nil {
					res.info, res.err = res.partition.Append(part.Records, r.Checksum(part.Records[record.AttributesAt:]), guard, q.Acks == acksAll, nowMs, &p.done)
				}
			}
			p.noteAppend(&res)
			p.results = append(p.results, res)
		}
	}
}

// refusal says why records are not for the log to judge, or nil.
func refusal(q *kmsg.ProduceRequest, topic string, part *kmsg.ProduceRequestTopicPartition) error {
	switch q.Acks {
	case acksAll, acksLeader, acksNone:
	default:
		return fmt.Errorf("acks %d: %w", q.Acks, kerr.InvalidRequiredAcks)
	}
	if metadata.InternalTopic(topic) {
		return refusalOfShard(q, topic, part)
	}
	b, err := record.FromProduce(part.Records, q.Version)
	if err != nil {
		return err
	}
	if b.IsTransactional() && q.TransactionID == nil {
		return fmt.Errorf("a transactional batch without a transactional id: %w", kerr.TransactionalIDAuthorizationFailed)
	}
	return nil
}

func (p *produce) firstError() error {
	for i := range p.results {
		if err := p.results[i].err; err != nil {
			return err
		}
	}
	return nil
}

// tellReaders wakes the fetches that waited for these records.
func (p *produce) tellReaders() {
	for i := range p.results {
		if res := &p.results[i]; res.err == nil && !res.info.Duplicate {
			res.partition.Tell(res.bytes, res.info.EndOffset, &p.done)
		}
	}
	p.done.Fire()
}

func (s *Service) recycle(p *produce) {
	clear(p.results)
	clear(p.permits)
	p.results, p.permits, p.r = p.results[:0], p.permits[:0], nil
	s.pool.Put(p)
}
