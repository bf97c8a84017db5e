package fetcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
)

const (
	fetchVersion       = 17
	listOffsetsVersion = 9
	// firstBackoff is the wait after a first failure; it doubles up to replica.fetch.backoff.ms. Most failures are of metadata
	// that reaches one node a little sooner than the other.
	firstBackoff = 10 * time.Millisecond
)

// fetcher fetches what is assigned to one connection to a leader.
type fetcher struct {
	cfg        *Config
	from       source
	image      func() *metadata.Image
	log        *zap.Logger
	stop       context.CancelFunc
	partitions int // under Set.mu

	mu      sync.Mutex
	changes map[key]assignment // not yet seen by run; without a partition: to be fetched no more
	wake    chan struct{}      // has one token when there are changes

	// Owned by run.
	conn    *client.Exclusive
	retry   backoff
	session session
	all     map[key]*replica
	resting map[*replica]struct{} // that wait for the end of a back-off
}

// replica is one partition that is fetched.
type replica struct {
	key         key
	partition   *partition.Partition
	leaderEpoch int32
	told        position // to the leader
	retry       backoff
	until       time.Time // of its rest
}

func newFetcher(cfg *Config, from source, image func() *metadata.Image) *fetcher {
	return &fetcher{
		cfg: cfg, from: from, image: image,
		log:     cfg.Log.With(zap.Int32("leader", from.leader), zap.Int("fetcher", from.lane)),
		changes: map[key]assignment{}, wake: make(chan struct{}, 1),
		session: newSession(), all: map[key]*replica{}, resting: map[*replica]struct{}{},
	}
}

// change has run fetch a partition anew, or no more.
func (f *fetcher) change(k key, a assignment) {
	f.mu.Lock()
	f.changes[k] = a
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run fetches until ctx ends.
func (f *fetcher) run(ctx context.Context) {
	defer f.disconnect()
	for ctx.Err() == nil {
		f.takeChanges()
		next := f.endRests()
		if len(f.all) == len(f.resting) {
			f.idle(ctx, next)
			continue
		}
		if err := f.round(ctx); err != nil && ctx.Err() == nil {
			f.log.Log(f.retry.level(), "fetching from the leader failed", zap.Error(err))
			f.disconnect()
			f.idle(ctx, time.Now().Add(f.retry.next(f.cfg.Backoff)))
		}
	}
}

// idle waits for a change, or until the time comes if that is not zero.
func (f *fetcher) idle(ctx context.Context, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-f.wake:
	case <-due:
	case <-ctx.Done():
	}
}

func (f *fetcher) takeChanges() {
	f.mu.Lock()
	changes := f.changes
	f.changes = map[key]assignment{}
	f.mu.Unlock()
	for k, a := range changes {
		f.forget(f.all[k])
		if a.partition == nil {
			continue
		}
		if a.partition.Failed() {
			continue
		}
		r := &replica{key: k, partition: a.partition, leaderEpoch: a.leaderEpoch}
		f.all[k] = r
		f.session.want(r)
	}
}

func (f *fetcher) forget(r *replica) {
	if r == nil {
		return
	}
	delete(f.all, r.key)
	delete(f.resting, r)
	f.session.drop(r)
}

// rest leaves a partition out of the fetches for a while.
func (f *fetcher) rest(r *replica, why error) {
	f.log.Log(r.retry.level(), "partition is not fetched for now", zap.Stringer("partition", r.partition), zap.Int32("leaderEpoch", r.leaderEpoch), zap.Error(why))
	f.session.drop(r)
	r.until = time.Now().Add(r.retry.next(f.cfg.Backoff))
	f.resting[r] = struct{}{}
}

// throttlePause is how often a throttled partition looks whether it may go on again.
const throttlePause = 100 * time.Millisecond

// throttle counts what came of a throttled partition, and leaves one that lags out of the fetches while more came than may (KIP-73).
func (f *fetcher) throttle(r *replica, bytes int) {
	if !r.partition.ThrottledAsFollower() {
		return
	}
	now := time.Now()
	f.cfg.Throttle.Record(int64(bytes), now.UnixMilli())
	if r.partition.Lag() > 0 && f.cfg.Throttle.Exceeded(now.UnixMilli()) {
		f.session.drop(r)
		r.until = now.Add(throttlePause)
		f.resting[r] = struct{}{}
	}
}

// stillThrottled says whether a partition that has rested has to go on resting.
func (f *fetcher) stillThrottled(r *replica, now time.Time) bool {
	return r.partition.ThrottledAsFollower() && r.partition.Lag() > 0 && f.cfg.Throttle.Exceeded(now.UnixMilli())
}

// endRests takes up again what has rested enough, and tells when the next has.
func (f *fetcher) endRests() (next time.Time) {
	now := time.Now()
	for r := range f.resting {
		if !r.until.After(now) {
			if !f.stillThrottled(r, now) {
				delete(f.resting, r)
				f.session.want(r)
				continue
			}
			r.until = now.Add(throttlePause)
		}
		if next.IsZero() || r.until.Before(next) {
			next = r.until
		}
	}
	return next
}

// round sends one fetch and stores what it brings. An error means that the connection is of no more use.
func (f *fetcher) round(ctx context.Context) error {
	if f.conn == nil {
		if err := f.connect(ctx); err != nil {
			return err
		}
	}
	req := f.session.request(f.cfg)
	resp, err := f.conn.Do(ctx, req, fetchVersion)
	if err != nil {
		return err
	}
	fetched := resp.(*kmsg.FetchResponse)
	if fetched.ErrorCode != 0 {
		f.session.reset(f.fetched)
		return f.refused(kerr.ErrorForCode(fetched.ErrorCode))
	}
	f.session.answered(fetched.SessionID, f.fetched)
	f.retry.reset()
	for i := range fetched.Topics {
		t := &fetched.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			r := f.all[key{t.TopicID, p.Partition}]
			if r == nil {
				continue
			}
			if err := f.take(ctx, r, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetched yields the partitions that are not resting.
func (f *fetcher) fetched(yield func(*replica) bool) {
	for _, r := range f.all {
		if _, rests := f.resting[r]; !rests && !yield(r) {
			return
		}
	}
}

// refused is what the answer to a whole fetch comes to. A session that the leader has lost is simply begun anew.
func (f *fetcher) refused(err error) error {
	for _, lost := range []error{kerr.FetchSessionIDNotFound, kerr.InvalidFetchSessionEpoch, kerr.FetchSessionTopicIDError} {
		if errors.Is(err, lost) {
			return nil
		}
	}
	return err
}

// take stores what came of one partition. An error means that the connection is of no more use.
func (f *fetcher) take(ctx context.Context, r *replica, p *kmsg.FetchResponseTopicPartition) error {
	err := kerr.ErrorForCode(p.ErrorCode)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		var broken error
		if err, broken = f.resume(ctx, r); broken != nil {
			return broken
		}
	case err != nil:
	case p.DivergingEpoch.EndOffset >= 0:
		var end int64
		end, err = r.partition.Truncate(r.leaderEpoch, p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset)
		f.log.Info("log diverged from the leader's and was truncated", zap.Stringer("partition", r.partition),
			zap.Int64("from", r.told.offset), zap.Int64("to", end), zap.Int32("leaderEpoch", r.leaderEpoch), zap.Error(err))
	default:
		began := time.Now()
		err = r.partition.Replicate(partition.Copy{
			LeaderEpoch: r.leaderEpoch, Offset: r.told.offset, Records: p.RecordBatches, HighWatermark: p.HighWatermark, StartOffset: p.LogStartOffset,
		})
		if err == nil && p.UnknownTags.Len() > 0 && f.cfg.Tracer != nil {
			f.traced(r, p, began)
		}
	}
	switch {
	case err == nil:
		r.retry.reset()
		f.session.moved(r)
		f.throttle(r, len(p.RecordBatches))
	case errors.Is(err, partition.ErrNotFollowing):
		f.forget(r) // the fetchers' assignment follows, or has come already
	case errors.Is(err, kerr.KafkaStorageError) && r.partition.Failed():
		f.log.Error("partition is not fetched any more", zap.Stringer("partition", r.partition), zap.Error(err))
		f.forget(r)
	default:
		f.rest(r, err)
	}
	return nil
}

// resume looks where the leader's log begins and ends, after it had nothing of what was asked for, and goes on there.
// A broken error means that the connection is of no more use.
func (f *fetcher) resume(ctx context.Context, r *replica) (err, broken error) {
	earliest, err, broken := f.listOffset(ctx, r, -2)
	if err != nil || broken != nil {
		return err, broken
	}
	latest, err, broken := f.listOffset(ctx, r, -1)
	if err != nil || broken != nil {
		return err, broken
	}
	before := r.told.offset
	end, err := r.partition.Resume(r.leaderEpoch, earliest, latest)
	f.log.Warn("log was out of the leader's range", zap.Stringer("partition", r.partition), zap.Int64("end", before),
		zap.Int64("leaderStart", earliest), zap.Int64("leaderEnd", latest), zap.Int64("goesOnAt", end), zap.Error(err))
	return err, nil
}

func (f *fetcher) listOffset(ctx context.Context, r *replica, timestamp int64) (offset int64, err, broken error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = f.cfg.NodeID
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.Timestamp = r.key.partition, r.leaderEpoch, timestamp
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: r.partition.Topic.Name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	resp, err := f.conn.Do(ctx, req, listOffsetsVersion)
	if err != nil {
		return 0, nil, err
	}
	topics := resp.(*kmsg.ListOffsetsResponse).Topics
	if len(topics) != 1 || len(topics[0].Partitions) != 1 {
		return 0, nil, errors.New("the answer to ListOffsets is not about one partition")
	}
	answer := &topics[0].Partitions[0]
	return answer.Offset, kerr.ErrorForCode(answer.ErrorCode), nil
}

func (f *fetcher) connect(ctx context.Context) error {
	n, ok := f.image().Node(f.from.leader)
	if !ok {
		return fmt.Errorf("node %d is not registered", f.from.leader)
	}
	at, ok := n.PeerListener(f.cfg.Listener)
	if !ok {
		return fmt.Errorf("node %d: %w", n.ID, kerr.ListenerNotFound)
	}
	conn, err := client.DialExclusive(ctx, net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port))), client.Config{
		ClientID:       fmt.Sprintf("broker-%d-fetcher-%d", f.cfg.NodeID, f.from.lane),
		RequestTimeout: f.cfg.SocketTimeout + f.cfg.MaxWait, DialTimeout: f.cfg.SocketTimeout,
		// One batch above every limit is answered all the same; a response has heads beside records.
		MaxResponseBytes: maxResponseBytes,
	})
	if err != nil {
		return err
	}
	f.conn = conn
	return nil
}

// maxResponseBytes bounds an answer; memory is taken as bytes arrive.
const maxResponseBytes = 1<<31 - 1

func (f *fetcher) disconnect() {
	f.session.reset(f.fetched)
	if f.conn != nil {
		_ = f.conn.Close() // there is nothing left to lose on it
		f.conn = nil
	}
}
