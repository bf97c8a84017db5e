package client

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Exclusive is a connection for one caller with one request at a time, who reads large answers: they lie in memory that the
// connection keeps.
type Exclusive struct {
	c     *conn
	frame []byte // of the request
	body  []byte // of the answer
}

// DialExclusive opens a connection to host:port and agrees on versions, within c.DialTimeout. It has to be closed.
func DialExclusive(ctx context.Context, addr string, c Config) (*Exclusive, error) {
	c = c.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	nc, err := c.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	e := &Exclusive{c: newConn(nc, &c, new(sync.WaitGroup))}
	if err := e.c.negotiate(); err != nil {
		stop()
		_ = nc.Close()
		return nil, fmt.Errorf("connect to %s: agree on versions: %w", addr, err)
	}
	if !stop() {
		_ = nc.Close()
		return nil, fmt.Errorf("connect to %s: %w", addr, ctx.Err())
	}
	return e, nil
}

// Close ends the connection.
func (e *Exclusive) Close() error { return e.c.nc.Close() }

// Do sends the request, at the highest version that both sides know and maxVersion allows, and returns its answer, which
// refers to memory of the connection and is valid until the next call. The connection is of no use after an error.
func (e *Exclusive) Do(ctx context.Context, req kmsg.Request, maxVersion int16) (kmsg.Response, error) {
	if err := e.c.setVersion(req); err != nil {
		return nil, err
	}
	req.SetVersion(min(req.GetVersion(), maxVersion))
	if err := e.c.nc.SetDeadline(time.Now().Add(e.c.config.RequestTimeout)); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = e.c.nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	e.c.lastID++
	e.frame = appendRequest(ctx, e.frame[:0], e.c.config.ClientID, req)
	binary.BigEndian.PutUint32(e.frame[correlationIDAt:], uint32(e.c.lastID))
	if _, err := e.c.nc.Write(e.frame); err != nil {
		return nil, fmt.Errorf("write %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	if cap(e.frame) > maxKeptBuffer {
		e.frame = nil
	}
	body, err := e.read()
	if err != nil {
		return nil, fmt.Errorf("answer to %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	resp := req.ResponseKind()
	return resp, decodeAnswer(resp, body)
}

// read reads a frame and returns what follows its correlation id. Memory grows as bytes arrive.
func (e *Exclusive) read() ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(e.c.in, head[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:])))
	if size < 4 || size > e.c.config.MaxResponseBytes {
		return nil, fmt.Errorf("answer of %d bytes is out of range [4, %d]", size, e.c.config.MaxResponseBytes)
	}
	if id := int32(binary.BigEndian.Uint32(head[4:])); id != e.c.lastID {
		return nil, fmt.Errorf("answer has correlation id %d, not %d", id, e.c.lastID)
	}
	size -= 4
	e.body = e.body[:0]
	for len(e.body) < size {
		at := len(e.body)
		if cap(e.body) == at {
			e.body = append(make([]byte, 0, min(size, max(2*at, trustedBytes))), e.body...)
		}
		e.body = e.body[:min(size, cap(e.body))]
		n, err := io.ReadFull(e.c.in, e.body[at:])
		if err != nil {
			e.body = e.body[:at+n]
			return nil, err
		}
	}
	return e.body, nil
}
