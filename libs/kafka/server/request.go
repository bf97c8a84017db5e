package server

import (
	"context"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Request is one request of a connection and the slot of its answer. Exactly one of Reply, Finish,
// ReplyNothing and Fail ends it; a second one panics. They may be called from any goroutine, also when the
// connection is gone. They never block: what the socket does not take at once is left to a writer goroutine.
type Request struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string // "" when null
	Body          []byte // what follows the request header; valid until ReleaseBody or the answer
	Conn          *Conn
	Received      time.Time // when the last byte had been read
}

// Chunk is a range of a file that Finish splices into the response.
type Chunk struct {
	After  int // the range follows head[:After]; not below the After of the chunk before it
	File   *os.File
	Offset int64 // where in the file the range starts
	Size   int   // bytes; the connection is closed when the file turns out shorter
}

// Context ends when the connection is closed. It carries the request's span if there is one.
func (r *Request) Context() context.Context { return context.Background() }

// Decode reads the body into m at the request's version. After an error the handler calls Fail.
// Byte fields alias Body; for Produce, strings do too.
func (r *Request) Decode(m kmsg.Request) error { panic("not built yet") }

// Reply encodes m at the request's version and sends it.
func (r *Request) Reply(m kmsg.Response) { panic("not built yet") }

// Begin returns a pooled buffer that already holds the response header, to append the body to and to give to
// Finish.
func (r *Request) Begin() []byte { panic("not built yet") }

// Finish sends head, which began as the result of Begin, with the chunks spliced in. It takes head and chunks
// over. release, if not nil, is called exactly once, when the last byte was sent or the connection died,
// possibly before Finish returns; chunks are not used afterwards.
func (r *Request) Finish(head []byte, chunks []Chunk, release func()) { panic("not built yet") }

// ReplyNothing ends a request that has no response (Produce with acks=0).
func (r *Request) ReplyNothing() { panic("not built yet") }

// Fail closes the connection, after the answers of earlier requests were sent, with one log line that names
// the API, its version, the client and err.
func (r *Request) Fail(err error) { panic("not built yet") }

// ReleaseBody gives the body's memory back before the answer. Body, and what Decode let alias it, must not be
// used afterwards.
func (r *Request) ReleaseBody() { panic("not built yet") }

// Go runs fn on a goroutine of its own, for work that may block. A panic in fn closes the connection.
func (r *Request) Go(fn func()) { panic("not built yet") }
