package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
)

// Endpoint is a subject that takes requests of one message type and answers with another. Both are pointers to generated messages.
type Endpoint[Req, Resp proto.Message] struct{ subject string }

// NewEndpoint names an endpoint.
func NewEndpoint[Req, Resp proto.Message](subject string) Endpoint[Req, Resp] {
	return Endpoint[Req, Resp]{subject: subject}
}

// At is the same endpoint at one instance among several that serve it.
func (e Endpoint[Req, Resp]) At(instance int32) Endpoint[Req, Resp] {
	return Endpoint[Req, Resp]{subject: e.subject + "." + strconv.FormatInt(int64(instance), 10)}
}

// Call sends req and waits for the answer, for the connection's request timeout at the most. Errors wrap ErrNoResponder,
// ErrTimeout, ErrUnavailable, ErrTooLarge, *RemoteError, or the context's own.
func (e Endpoint[Req, Resp]) Call(ctx context.Context, c *Conn, req Req) (Resp, error) {
	var none Resp
	ctx, span := c.tracer.Start(ctx, e.subject, clientSpan...)
	defer span.End()
	resp, err := e.call(ctx, c, req)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		return none, err
	}
	return resp, nil
}

func (e Endpoint[Req, Resp]) call(ctx context.Context, c *Conn, req Req) (Resp, error) {
	resp := fresh[Resp]()
	data, err := proto.Marshal(req)
	if err != nil {
		return resp, fmt.Errorf("bus: encode a request to %s: %w", e.subject, err)
	}
	answer, err := c.request(ctx, e.subject, traceHeader(ctx), data)
	if err != nil {
		return resp, err
	}
	if err := proto.Unmarshal(answer, resp); err != nil {
		return resp, fmt.Errorf("bus: decode the answer of %s: %w", e.subject, err)
	}
	return resp, nil
}

// Serve hands each request to handle, in order and one at a time, so handle must not wait for anything but memory. It
// answers by calling reply once, then or later, from any goroutine; an error reaches the caller as a *RemoteError.
func (e Endpoint[Req, Resp]) Serve(c *Conn, handle func(ctx context.Context, req Req, reply func(Resp, error))) (*Subscription, error) {
	return e.serve(c, "", handle)
}

// ServeShared is Serve where each request goes to one of all the connections that share the endpoint.
func (e Endpoint[Req, Resp]) ServeShared(c *Conn, handle func(ctx context.Context, req Req, reply func(Resp, error))) (*Subscription, error) {
	return e.serve(c, "shared", handle)
}

func (e Endpoint[Req, Resp]) serve(c *Conn, queue string, handle func(context.Context, Req, func(Resp, error))) (*Subscription, error) {
	return c.subscribe(e.subject, queue, func(m *nats.Msg) {
		ctx := traceContext(m.Header)
		ctx, span := c.tracer.Start(ctx, e.subject, serverSpan...)
		reply := func(resp Resp, err error) {
			defer span.End()
			if err != nil {
				span.SetStatus(codes.Error, err.Error())
			}
			c.answer(m.Reply, resp, err)
		}
		req := fresh[Req]()
		if err := proto.Unmarshal(m.Data, req); err != nil {
			var none Resp
			reply(none, fmt.Errorf("malformed request: %w", err))
			return
		}
		handle(ctx, req, reply)
	})
}

// answer sends a reply. One that cannot be sent is the caller's timeout.
func (c *Conn) answer(subject string, resp proto.Message, fault error) {
	if subject == "" {
		return
	}
	m := &nats.Msg{Subject: subject}
	if fault == nil {
		m.Data, fault = proto.Marshal(resp)
	}
	if fault == nil {
		fault = publishChunked(c.nc, m)
		if !errors.Is(fault, nats.ErrMaxPayload) {
			return
		}
	}
	m.Data, m.Header = nil, nats.Header{errorHeader: []string{oneLine(fault.Error())}}
	if err := c.nc.PublishMsg(m); err != nil {
		c.log.Debug("answer not sent")
	}
}

// oneLine keeps a message within what a header can hold.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)
	return s[:min(len(s), chunkOverheadBytes/2)]
}

// fresh makes an empty message of a generated pointer type.
func fresh[M proto.Message]() M {
	var none M
	return none.ProtoReflect().New().Interface().(M)
}

var (
	propagator = propagation.TraceContext{}
	system     = trace.WithAttributes(attribute.String("messaging.system", "nats"))
	clientSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), system}
	serverSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), system}
)

func traceHeader(ctx context.Context) nats.Header {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	h := nats.Header{}
	propagator.Inject(ctx, propagation.HeaderCarrier(h))
	return h
}

func traceContext(h nats.Header) context.Context {
	if h == nil {
		return context.Background()
	}
	return propagator.Extract(context.Background(), propagation.HeaderCarrier(h))
}
