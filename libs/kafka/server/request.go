package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/crc32c"
)

// Request is one request of a connection and the slot of its answer. Exactly one of Reply, Finish,
// ReplyNothing and Fail ends it; a second one panics. They may be called from any goroutine, also when the
// connection is gone. They never wait: what the socket does not take at once is left to a writer goroutine.
// They may write to the socket and call release functions, so callers hold no lock that those need.
type Request struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string // "" when null
	Body          []byte // what follows the request header; valid until ReleaseBody, else until the handler has returned and the request is answered
	Conn          *Conn
	Received      time.Time // when the last byte had been read

	route *route
	frame frame
	trace *Trace // nil: none
	flags atomic.Uint32

	// The answer, written by whoever gives it and then owned by the sender.
	head    []byte
	chunks  []Chunk
	release func()
	size    int64 // bytes on the wire, lengths included
	failure error // closes the connection instead of answering

	// The slot, guarded by Conn.mu until the sender takes it.
	done      bool
	pointless bool // behind a slot that closes the connection
	next      *Request
	laneNext  *Request

	// Nanoseconds after Received.
	started  int64
	returned atomic.Int64 // 0 while the handler runs
	answered int64

	requestBytes int // header included
	follower     bool
}

var errPanic = errors.New("handler panicked")

// Bits of Request.flags.
const (
	flagAnswered     = 1 << iota // the answer is given
	flagReturned                 // the handler has returned
	flagBodyReleased             // frame is given back
	flagAbandoned                // the server answered in the handler's place, whose answer is dropped
)

// Chunk is a range of a file that Finish splices into the response.
type Chunk struct {
	After  int // the range follows head[:After]; not below the After of the chunk before it
	File   *os.File
	Offset int64 // where in the file the range starts
	Size   int   // bytes; the connection is closed when the file turns out shorter
}

// Name is the name of the API as Kafka spells it.
func (r *Request) Name() string { return r.route.name }

// CountAsFollower marks a Fetch as that of a replica: its metrics go to FetchFollower instead of FetchConsumer.
func (r *Request) CountAsFollower() { r.follower = true }

// Decode reads the body into m at the request's version. After an error the handler calls Fail.
// Byte fields alias Body; for Produce, strings do too.
func (r *Request) Decode(m kmsg.Request) error {
	m.SetVersion(r.Version)
	if err := decode(m, r.Body); err != nil {
		return fmt.Errorf("decode %s v%d of %d bytes: %w", r.route.name, r.Version, len(r.Body), err)
	}
	return nil
}

// Checksum is the CRC-32C of part, which is a part of Body. For an API that is registered with Checksums it needs little of
// the bytes.
func (r *Request) Checksum(part []byte) uint32 {
	whole := r.frame.buf
	if len(part) == 0 || len(whole) == 0 {
		return crc32c.Checksum(part)
	}
	from := int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole))))
	if from < 0 || from+len(part) > len(whole) {
		return crc32c.Checksum(part)
	}
	return r.frame.checksums.Sum(whole, from, from+len(part))
}

// Reply encodes m at the request's version and sends it.
func (r *Request) Reply(m kmsg.Response) {
	m.SetVersion(r.Version)
	r.trace.Answers(m)
	r.Finish(m.AppendTo(r.Begin()), nil, nil)
}

// responseHeaderBytes is the room for length, correlation id and an empty tag section.
const responseHeaderBytes = 9

// Begin returns a pooled buffer that already holds the response header, to append the body to and to give to
// Finish.
func (r *Request) Begin() []byte { return r.BeginSize(0) }

// BeginSize is Begin with room for a body of bodyBytes, so that appending it needs no larger buffer.
func (r *Request) BeginSize(bodyBytes int) []byte {
	b := r.Conn.s.buffers.get(responseHeaderBytes + bodyBytes)[:responseHeaderBytes]
	binary.BigEndian.PutUint32(b[4:], uint32(r.CorrelationID))
	b[8] = 0
	if r.Version < r.route.flexibleFrom || r.Key == apiVersionsKey {
		return b[:8]
	}
	return b
}

// Finish sends head, which began as the result of Begin, with the chunks spliced in. It takes head and chunks
// over. release, if not nil, is called exactly once, when the last byte was sent or the connection died,
// possibly before Finish returns; until then the files of chunks stay open and their ranges unchanged.
func (r *Request) Finish(head []byte, chunks []Chunk, release func()) {
	size := int64(len(head))
	for i := range chunks {
		size += int64(chunks[i].Size)
	}
	if size-4 > math.MaxInt32 {
		r.end(nil, nil, release, 0, fmt.Errorf("response of %d bytes exceeds what the protocol can carry", size))
		return
	}
	binary.BigEndian.PutUint32(head, uint32(size-4))
	r.end(head, chunks, release, size, nil)
}

// ReplyNothing ends a request that has no response (Produce with acks=0).
func (r *Request) ReplyNothing() { r.end(nil, nil, nil, 0, nil) }

// Fail closes the connection, after the answers of earlier requests were sent, with one log line that names
// the API, its version, the client and err.
func (r *Request) Fail(err error) { r.end(nil, nil, nil, 0, err) }

// ReleaseBody gives the body's memory back before the answer. Body, and what Decode let alias it, must not be
// used afterwards.
func (r *Request) ReleaseBody() {
	if r.flags.Or(flagBodyReleased)&flagBodyReleased == 0 {
		r.Body = nil
		r.Conn.s.discard(&r.frame)
	}
}

// Go runs fn on a goroutine of its own, for work that may block. It is called before the handler returns. A
// panic in fn closes the connection.
func (r *Request) Go(fn func()) {
	r.Conn.wg.Go(func() {
		defer r.recoverPanic()
		fn()
	})
}

// end fills the slot and lets the connection send what is ready.
func (r *Request) end(head []byte, chunks []Chunk, release func(), size int64, failure error) {
	before := r.flags.Or(flagAnswered)
	if before&flagAnswered != 0 {
		if before&flagAbandoned == 0 {
			panic("server: " + r.route.name + " request answered twice")
		}
		if release != nil {
			release()
		}
		return
	}
	if failure != nil {
		r.Conn.s.logFailure(r, failure)
	}
	r.head, r.chunks, r.release, r.size, r.failure = head, chunks, release, size, failure
	r.answered = int64(time.Since(r.Received))
	if before&flagReturned != 0 {
		r.ReleaseBody()
	}
	r.Conn.settle(r)
}

// closes reports whether the connection ends at this slot.
func (r *Request) closes() bool { return r.failure != nil }

// run calls the handler.
func (r *Request) run() {
	defer r.recoverPanic()
	r.route.Handle(r)
	if r.flags.Load()&flagAnswered == 0 {
		r.returned.Store(int64(time.Since(r.Received)))
	}
	if r.flags.Or(flagReturned)&flagAnswered != 0 {
		r.ReleaseBody()
	}
}

// recoverPanic turns a panic of a handler into the end of its connection.
func (r *Request) recoverPanic() {
	cause := recover()
	if cause == nil {
		return
	}
	r.Conn.s.logPanic(r, cause)
	r.frame.buf = nil // others may still look at the body: leave it to the collector
	r.ReleaseBody()
	if r.flags.Or(flagAbandoned|flagAnswered)&flagAnswered != 0 {
		r.Conn.kill()
		return
	}
	r.failure = errPanic
	r.Conn.settle(r)
}

// sent ends an answered request whose bytes are all on their way.
func (r *Request) sent() {
	r.Conn.activity.Add(1)
	r.Conn.s.metrics.record(r, int64(time.Since(r.Received)))
	r.discard()
}

// discard gives back what the answer holds.
func (r *Request) discard() {
	if r.head != nil {
		r.Conn.s.buffers.put(r.head)
		r.head = nil
	}
	r.chunks = nil
	if r.release != nil {
		r.release()
		r.release = nil
	}
	r.endTrace()
}
