package bus

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

const (
	statusHeader = "Status"
	noResponders = "503"
	errorHeader  = "Cauce-Error"
)

// replies matches answers to the requests that wait for them, over one subscription for the whole connection.
type replies struct {
	prefix string

	mu      sync.Mutex
	next    uint64
	waiting map[string]*call // nil once closed
}

type call struct {
	asm    assembler
	answer chan answer // holds one
}

type answer struct {
	header nats.Header
	data   []byte
	err    error
}

func newReplies(nc *nats.Conn) (*replies, error) {
	r := &replies{prefix: nats.NewInbox() + ".", waiting: make(map[string]*call)}
	sub, err := nc.Subscribe(r.prefix+"*", r.receive)
	if err != nil {
		return nil, err
	}
	return r, sub.SetPendingLimits(-1, -1) // bounded by the requests that wait
}

func (r *replies) receive(m *nats.Msg) {
	token := strings.TrimPrefix(m.Subject, r.prefix)
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.waiting[token]
	if !ok {
		return // its caller gave up
	}
	header, data, whole := c.asm.add(m)
	if !whole {
		return
	}
	delete(r.waiting, token)
	c.answer <- answer{header: header, data: data}
}

func (r *replies) begin() (token string, c *call, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		return "", nil, false
	}
	r.next++
	token = strconv.FormatUint(r.next, 36)
	c = &call{answer: make(chan answer, 1)}
	r.waiting[token] = c
	return token, c, true
}

func (r *replies) forget(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, token)
}

func (r *replies) failAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.waiting {
		c.answer <- answer{err: fmt.Errorf("%w: closed", ErrUnavailable)}
	}
	r.waiting = nil
}

// request sends data to subject and returns the answer's data. Errors wrap ErrNoResponder, ErrTimeout, ErrUnavailable,
// ErrTooLarge, *RemoteError or the context's.
func (c *Conn) request(ctx context.Context, subject string, header nats.Header, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout)
	defer cancel()
	token, waiting, ok := c.replies.begin()
	if !ok {
		return nil, fmt.Errorf("%w: %s: closed", ErrUnavailable, subject)
	}
	m := &nats.Msg{Subject: subject, Reply: c.replies.prefix + token, Header: header, Data: data}
	if err := c.nc.PublishMsg(m); err != nil {
		c.replies.forget(token)
		return nil, sendError(subject, err)
	}
	select {
	case a := <-waiting.answer:
		return a.value(subject)
	case <-ctx.Done():
		c.replies.forget(token)
		return nil, waitError(subject, ctx.Err())
	}
}

func (a answer) value(subject string) ([]byte, error) {
	switch {
	case a.err != nil:
		return nil, fmt.Errorf("%s: %w", subject, a.err)
	case len(a.data) == 0 && a.header.Get(statusHeader) == noResponders:
		return nil, fmt.Errorf("%w: %s", ErrNoResponder, subject)
	case a.header.Get(errorHeader) != "":
		return nil, &RemoteError{Subject: subject, Message: a.header.Get(errorHeader)}
	}
	return a.data, nil
}
