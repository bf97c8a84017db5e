// Package wire speaks the Kafka protocol frame by frame, so that a test decides every byte that a client would decide.
package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// timeout bounds every write and read of a frame.
const timeout = 30 * time.Second

// Conn is one connection to a server. It is not safe for concurrent use.
type Conn struct {
	conn      net.Conn
	formatter *kmsg.RequestFormatter
	next      int32
}

// Dial connects to a server.
func Dial(address string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return nil, err
	}
	return &Conn{conn: c, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID("conformance"))}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Send writes a request at its version and returns the correlation id it was given.
func (c *Conn) Send(req kmsg.Request) (int32, error) {
	c.next++
	return c.next, c.SendRaw(c.formatter.AppendRequest(nil, req, c.next))
}

// SendRaw writes bytes as they are.
func (c *Conn) SendRaw(b []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := c.conn.Write(b)
	return err
}

// ReadFrame reads the next frame without its length.
func (c *Conn) ReadFrame() ([]byte, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.conn, frame)
	return frame, err
}

// Receive reads the next frame, which must be the answer to the request with this correlation id, and decodes it. It
// returns the response's body too.
func (c *Conn) Receive(req kmsg.Request, correlation int32) (kmsg.Response, []byte, error) {
	frame, err := c.ReadFrame()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", Name(req), err)
	}
	if len(frame) < 4 || int32(binary.BigEndian.Uint32(frame)) != correlation {
		return nil, nil, fmt.Errorf("%s: answer %x does not begin with correlation id %d", Name(req), frame[:min(len(frame), 16)], correlation)
	}
	body := frame[4:]
	res := req.ResponseKind()
	if res.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if body, err = skipTags(body); err != nil {
			return nil, nil, fmt.Errorf("%s: response header: %w", Name(req), err)
		}
	}
	if err := res.ReadFrom(body); err != nil {
		return nil, body, fmt.Errorf("%s: answer %x cannot be decoded: %w", Name(req), body[:min(len(body), 64)], err)
	}
	return res, body, nil
}

// Do sends a request and decodes its answer.
func (c *Conn) Do(req kmsg.Request) (kmsg.Response, error) {
	id, err := c.Send(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name(req), err)
	}
	res, _, err := c.Receive(req, id)
	return res, err
}

// Name is the API's name and the request's version.
func Name(req kmsg.Request) string {
	return fmt.Sprintf("%s v%d", kmsg.NameForKey(req.Key()), req.GetVersion())
}

// skipTags skips the tagged fields that begin b.
func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, io.ErrUnexpectedEOF
	}
	b = b[n:]
	for range count {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, io.ErrUnexpectedEOF
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || uint64(len(b)-n-m) < size {
			return nil, io.ErrUnexpectedEOF
		}
		b = b[n+m+int(size):]
	}
	return b, nil
}
