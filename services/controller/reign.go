package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/services/controller/internal/cluster"
	"github.com/cauce-stream/cauce/services/controller/internal/quorum"
)

// maxBatchBytes bounds the records of one decision; the rest of the way to the nodes is made for as much.
const maxBatchBytes = 32 << 20

// flushTimeout is how long a new reign waits for the bus to know its endpoints.
const flushTimeout = time.Second

// reign is one claim to be the active controller. Only the event loop touches it, but for over.
type reign struct {
	s     *Service
	claim uint64
	term  int64
	// image has all decisions of the reign, the uncommitted ones too; next is the offset of the next one.
	image    *metadata.Image
	next     int64
	sessions *cluster.Sessions
	beats    map[int32]beat    // the newest of each node
	origin   trace.SpanContext // of the request that is being decided
	dueMs    int64             // when the next session ends
	chores   []*chore
	// electUnclean is the chore that changes of configs hasten.
	electUnclean *chore
	subs         subscriptions
	over         chan struct{} // closed when the reign has ended
	watch        func()        // ends the watcher of nodes, and waits for it
}

// request is one that waits for the event loop.
type request struct {
	of     *reign
	since  time.Time
	decide func()
	fail   func(error)
}

// decide is the event loop: it follows the quorum's leadership and takes one request after the other, until ctx ends.
func (s *Service) decide(ctx context.Context) {
	var r *reign // nil while another controller is active, or none
	expiry := time.NewTimer(time.Hour)
	defer expiry.Stop()
	defer func() {
		r.end()
		s.refuseQueued()
	}()
	for {
		r.arm(expiry)
		select {
		case <-ctx.Done():
			return
		case <-s.machine.changed:
			l := s.machine.leadership()
			// Two pieces of news may be one when the first is looked at. A claim has one reign: another would not know what the
			// first has proposed.
			if r != nil && l.Claim == r.claim {
				continue
			}
			r.end()
			r = s.begin(ctx, l)
		case req := <-s.requests:
			if req.of != r {
				req.fail(kerr.NotController)
				continue
			}
			began := time.Now()
			s.metrics.queueTime.Observe(float64(began.Sub(req.since).Microseconds()) / 1e3)
			r.guard(req)
			s.metrics.processingTime.Observe(float64(time.Since(began).Microseconds()) / 1e3)
		case <-expiry.C:
			r.expire()
			r.keepUp()
		}
	}
}

// refuseQueued answers what is left when nobody adds to the queue any more.
func (s *Service) refuseQueued() {
	for {
		select {
		case req := <-s.requests:
			req.fail(kerr.NotController)
		default:
			return
		}
	}
}

// begin makes this controller the active one if l says that it leads. The endpoints are in force before the first
// records go out: nodes that find no controller wait for just those.
func (s *Service) begin(ctx context.Context, l quorum.Leadership) *reign {
	if l.Claim == 0 {
		return nil
	}
	r := &reign{
		s: s, claim: l.Claim, term: int64(l.Term), next: l.Next, image: s.Image(),
		beats: map[int32]beat{}, over: make(chan struct{}),
	}
	r.sessions = cluster.NewSessions(r.image, r.env())
	r.chores = r.newChores()
	flushCtx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := errors.Join(r.serve(), s.bus.Flush(flushCtx)); err != nil {
		s.log.Warn("the bus is not there yet", zap.Error(err)) // it takes the subscriptions when it is
	}
	id := s.cfg.ClusterID
	if id == "" {
		id = metadata.TopicID(cluster.NewID(s.rand)).String()
	}
	r.commit(cluster.Activate(r.image, r.env(), r.term, id), func(err error) {
		if err == nil {
			s.log.Info("active controller", zap.Int64("epoch", int64(l.Term)), zap.Int64("offset", l.Next))
		}
	})
	s.metrics.newActive.Inc()
	r.watch = watch(ctx, r)
	return r
}

// end stops serving. What waits in the queue is refused when its turn comes.
func (r *reign) end() {
	if r == nil {
		return
	}
	close(r.over)
	r.watch()
	r.subs.close()
	r.s.log.Info("no longer the active controller", zap.Int64("epoch", r.term))
}

// submit queues a request; it waits while the queue is full, and with it the endpoint.
func (r *reign) submit(decide func(), fail func(error)) {
	select {
	case r.s.requests <- request{of: r, since: time.Now(), decide: decide, fail: fail}:
	case <-r.over:
		fail(kerr.NotController)
	}
}

// guard keeps a fault in one decision from taking the controller down: a decision changes nothing but by its records.
func (r *reign) guard(req request) {
	defer func() {
		if p := recover(); p != nil {
			r.s.metrics.faults.Inc()
			r.s.log.Error("decision failed", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			req.fail(kerr.UnknownServerError)
		}
	}()
	req.decide()
}

// offsetWith is the offset at which a decision with these records stands.
func (r *reign) offsetWith(recs []*metadatapb.Record) int64 {
	if len(recs) == 0 {
		return r.image.Offset()
	}
	return r.next
}

// commit proposes the records of a decision and calls done once they are committed and applied, or cannot be. A decision
// without records is done once those before it are: it may rest on them. done is called in the order of decisions.
func (r *reign) commit(recs []*metadatapb.Record, done func(error)) {
	unclean := cluster.UncleanElections(r.image, recs)
	var span trace.Span
	if len(recs) > 0 {
		span = r.s.commitSpan(r.origin, r.next)
	}
	p := quorum.Proposal{Claim: r.claim, Done: func(err error) {
		endCommit(span, err)
		r.s.send(func() {
			if err == nil {
				r.s.tellUnclean(unclean)
			}
			done(err)
		})
	}}
	if len(recs) > 0 {
		if err := r.add(recs, &p, identity(span)); err != nil {
			r.s.metrics.faults.Inc()
			r.s.log.Error("records refused", zap.Int("records", len(recs)), zap.Error(err))
			p.Done(err)
			return
		}
	}
	r.s.quorum.Propose(p)
}

// add makes the records, and those by which the shards follow them, a batch of p, and the reign's image one that has them. commit is
// the span of their commit.
func (r *reign) add(recs []*metadatapb.Record, p *quorum.Proposal, commit trace.SpanContext) error {
	image, delta, err := r.image.Apply(r.next, recs)
	if err != nil {
		return err
	}
	if shards := cluster.PlaceShards(image, delta); len(shards) > 0 {
		recs = append(recs, shards...)
		if image, _, err = r.image.Apply(r.next, recs); err != nil {
			return err
		}
	}
	data, err := metadata.AppendBatch(nil, recs)
	if err != nil {
		return err
	}
	if len(data) > maxBatchBytes {
		return fmt.Errorf("batch of %d bytes above %d: %w", len(data), maxBatchBytes, kerr.RecordListTooLarge)
	}
	r.changedConfigs(image, delta.ChangedConfigs)
	p.Data, p.Value = data, &decision{image, commit}
	r.image = image
	r.next++
	return nil
}

func (r *reign) env() cluster.Env {
	return cluster.Env{
		NowMs: r.s.nowMs(), Rand: r.s.rand, Static: r.s.cfg.Static, ControllerID: r.s.cfg.ID,
		Features: metadata.SupportedFeatures(),
	}
}

// arm sets the timer to when the next session ends or the next chore is due.
func (r *reign) arm(timer *time.Timer) {
	timer.Stop()
	if r == nil {
		return
	}
	var ok bool
	if r.dueMs, ok = r.sessions.NextExpiryMs(r.image); !ok {
		r.dueMs = math.MaxInt64
	}
	timer.Reset(time.Duration(min(r.dueMs, r.nextChoreMs())-r.s.nowMs()) * time.Millisecond)
}

// pausedMs is how much later than it was due an expiry shows that it was this process that stood still.
const pausedMs = 1000

// expire fences the nodes that have fallen silent. A controller that could not listen for a while gives all of them the
// whole timeout anew: what they said meanwhile may still be on its way here.
func (r *reign) expire() {
	if late := r.s.nowMs() - r.dueMs; late > pausedMs {
		r.s.log.Warn("this process stood still; all nodes get their session timeout anew", zap.Int64("ms", late))
		r.sessions = cluster.NewSessions(r.image, r.env())
		return
	}
	for {
		node, recs, ok := r.sessions.Expire(r.image, r.env())
		if !ok {
			return
		}
		r.s.metrics.timedOut.Inc()
		r.s.log.Warn("fencing a node that has fallen silent", zap.Int32("silent", node), zap.Int64("timeout_ms", r.sessions.TimeoutMs()))
		r.commit(recs, func(error) {})
	}
}

// serve puts one of the active controller's endpoints in force. decide gives the answer and the records it rests on;
// refuse makes the answer of an error code.
func serve[Req, Resp proto.Message](r *reign, e bus.Endpoint[Req, Resp], refuse func(code int32, message string) Resp,
	decide func(Req) (Resp, []*metadatapb.Record, error),
) error {
	sub, err := e.Serve(r.s.bus, func(ctx context.Context, req Req, reply func(Resp, error)) {
		fail := func(err error) {
			code, message := codeOf(err)
			reply(refuse(code, message), nil)
		}
		origin, queued := trace.SpanContextFromContext(ctx), time.Now()
		r.submit(func() {
			resp, recs, err := decide(req)
			if err != nil {
				recs = nil
			}
			refusal := err
			r.s.tracedProposal(origin, queued, len(recs))
			r.origin = origin
			defer func() { r.origin = trace.SpanContext{} }()
			r.commit(recs, func(err error) {
				if err = errors.Join(refusal, err); err != nil {
					fail(err)
					return
				}
				reply(resp, nil)
			})
		}, fail)
	})
	if err == nil {
		r.subs = append(r.subs, sub)
	}
	return err
}

// codeOf is the Kafka error code of err, and what to say about it.
func codeOf(err error) (int32, string) {
	if errors.Is(err, quorum.ErrNotLeader) || errors.Is(err, quorum.ErrStopped) {
		err = kerr.NotController
	}
	var refusal *cluster.Error
	if errors.As(err, &refusal) {
		return int32(refusal.Code.Code), refusal.Message
	}
	var k *kerr.Error
	if errors.As(err, &k) {
		return int32(k.Code), k.Description
	}
	return int32(kerr.UnknownServerError.Code), kerr.UnknownServerError.Description
}
