package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/bus/controlpb"
)

// forwardTimeout bounds a request to the active controller whose caller sets no earlier end, as in Kafka.
const forwardTimeout = 60 * time.Second

// response is what all answers of a controller have.
type response interface {
	proto.Message
	GetErrorCode() int32
	GetErrorMessage() string
}

// responseError is the Kafka error of an answer, with its own message.
func responseError(r response) error {
	if r.GetErrorCode() == 0 {
		return nil
	}
	code := kerr.ErrorForCode(int16(r.GetErrorCode()))
	if r.GetErrorMessage() == "" {
		return code
	}
	return fmt.Errorf("%s: %w", r.GetErrorMessage(), code)
}

// decide has the active controller answer a request. It goes on trying while there is none, until ctx ends, and then
// fails with REQUEST_TIMED_OUT as Kafka does. A request may reach a controller more than once.
func decide[Req proto.Message, Resp response](ctx context.Context, n *Node, e bus.Endpoint[Req, Resp], req func() Req) (Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	var retry backoff
	for {
		kicked := n.kicked.next()
		resp, err := callUntil(ctx, kicked, n, e, req())
		if err == nil {
			err = responseError(resp)
		}
		if err == nil {
			return resp, nil
		}
		if !retriable(err) {
			return resp, err
		}
		timer := time.NewTimer(retry.next())
		select {
		case <-timer.C:
		case <-kicked:
		case <-n.ended:
			cancel()
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return resp, fmt.Errorf("no answer of the active controller: %w: %w", err, kerr.RequestTimedOut)
		}
	}
}

// successorGrace is how long a request may still be answered after another controller has become active: often it was
// that one which got it.
const successorGrace = time.Second

// callUntil gives a request up, with ErrTimeout, a while after another controller has become active: the one that got it
// may be gone.
func callUntil[Req, Resp proto.Message](ctx context.Context, kicked <-chan struct{}, n *Node, e bus.Endpoint[Req, Resp], req Req) (Resp, error) {
	callCtx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-kicked:
			timer := time.NewTimer(successorGrace)
			defer timer.Stop()
			select {
			case <-timer.C:
				cancel(errSucceeded)
			case <-callCtx.Done():
			}
		case <-callCtx.Done():
		}
	})
	resp, err := e.Call(callCtx, n.bus, req)
	if err != nil && context.Cause(callCtx) == errSucceeded {
		err = fmt.Errorf("%w: %w", bus.ErrTimeout, errSucceeded)
	}
	cancel(nil)
	watch.Wait()
	return resp, err
}

var errSucceeded = errors.New("another controller is active now")

// retriable says that the same request may be answered better a little later.
func retriable(err error) bool {
	return errors.Is(err, bus.ErrNoResponder) || errors.Is(err, bus.ErrTimeout) || errors.Is(err, bus.ErrUnavailable) ||
		errors.Is(err, kerr.NotController)
}

// Forward has the active controller answer a Kafka request. body is the request at that version without its header, and
// so is the answer. It retries while there is no active controller, until ctx ends, and returns once the node's own
// image contains the change. Errors wrap a *kerr.Error; REQUEST_TIMED_OUT does not say that nothing was changed.
func (n *Node) Forward(ctx context.Context, apiKey, version int16, body []byte, principal, clientID, clientHost string) ([]byte, error) {
	req := &controlpb.AdminRequest{
		ApiKey: int32(apiKey), ApiVersion: int32(version), Body: body,
		Principal: principal, ClientId: clientID, ClientHost: clientHost,
	}
	resp, err := decide(ctx, n, controlpb.Admin, func() *controlpb.AdminRequest { return req })
	if err != nil {
		return nil, asKafka(err)
	}
	if err := n.AwaitOffset(ctx, resp.GetMetadataOffset()); err != nil {
		return nil, asKafka(err)
	}
	return resp.GetBody(), nil
}

// AllocateProducerIDs takes count producer ids from first on for this node alone. Errors wrap a *kerr.Error.
func (n *Node) AllocateProducerIDs(ctx context.Context) (first int64, count int32, err error) {
	resp, err := decide(ctx, n, controlpb.AllocateProducerIds, func() *controlpb.AllocateProducerIdsRequest {
		return &controlpb.AllocateProducerIdsRequest{NodeId: n.cfg.ID, NodeEpoch: n.Epoch()}
	})
	if err != nil {
		return 0, 0, asKafka(err)
	}
	return resp.GetFirst(), resp.GetCount(), nil
}

// asKafka makes err one that wraps a *kerr.Error.
func asKafka(err error) error {
	var k *kerr.Error
	switch {
	case errors.As(err, &k):
		return err
	case errors.Is(err, bus.ErrTooLarge):
		return fmt.Errorf("%w: %w", err, kerr.InvalidRequest)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, ErrEnded):
		return fmt.Errorf("%w: %w", err, kerr.RequestTimedOut)
	}
	return fmt.Errorf("%w: %w", err, kerr.UnknownServerError)
}

// Waits between tries grow from the first to the longest.
const (
	firstWait   = 20 * time.Millisecond
	longestWait = time.Second
)

// backoff is the wait before the next try of something that failed.
type backoff struct{ last time.Duration }

// next grows from try to try, by no fixed measure lest all nodes come at once.
func (b *backoff) next() time.Duration { return b.nextFrom(firstWait) }

func (b *backoff) nextFrom(first time.Duration) time.Duration {
	b.last = min(max(2*b.last, first), longestWait)
	return b.last - rand.N(b.last/4)
}

func (b *backoff) reset() { b.last = 0 }
