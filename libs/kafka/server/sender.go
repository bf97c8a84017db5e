package server

// maxGather bounds the memory ranges of one write.
const maxGather = 16

// sender sends a list of answers over a non-blocking socket and remembers where it stopped. It belongs to
// whoever has set Conn.writing.
type sender struct {
	first    *Request // the answers to send, linked by next; the first may be sent in part
	headSent int      // bytes of first.head sent
	chunk    int      // chunks of first sent
	inChunk  int      // bytes sent of the chunk after those
	written  uint64   // bytes sent over the connection's life

	done      int   // answers sent since the owner last looked
	doneBytes int64 // their bytes

	gather gather
}

// send writes until the list is empty (nil), the socket is full (errWouldBlock), a closing slot is reached
// (errCloseInOrder) or the connection is broken.
func (s *sender) send(fd uintptr) error {
	for {
		next := s.collect()
		n, err := 0, error(nil)
		switch {
		case s.gather.n > 0:
			n, err = sendGathered(fd, &s.gather, next != nil)
		case next != nil:
			n, err = sendFile(fd, next.File, next.Offset+int64(s.inChunk), next.Size-s.inChunk)
		case s.first == nil:
			return nil
		default:
			return errCloseInOrder
		}
		s.written += uint64(n)
		s.advance(n)
		if err != nil {
			return err
		}
	}
}

// collect gathers the memory to send before the next file range, which it returns if nothing but memory lies
// before it. Answers without bytes at the front are done here.
func (s *sender) collect() *Chunk {
	s.gather.reset()
	s.advance(0)
	sent, chunk := s.headSent, s.chunk
	for r := s.first; r != nil && !r.closes(); r = r.next {
		for {
			end := len(r.head)
			if chunk < len(r.chunks) {
				end = r.chunks[chunk].After
			}
			if sent < end {
				if s.gather.full() {
					return nil
				}
				s.gather.add(r.head[sent:end])
				sent = end
			}
			if chunk == len(r.chunks) {
				break
			}
			if r.chunks[chunk].Size > 0 {
				return &r.chunks[chunk]
			}
			chunk++
		}
		sent, chunk = 0, 0
	}
	return nil
}

// advance moves over n sent bytes and ends the answers that are complete.
func (s *sender) advance(n int) {
	for r := s.first; r != nil && !r.closes(); r = s.first {
		for s.chunk < len(r.chunks) || s.headSent < len(r.head) {
			if s.chunk < len(r.chunks) && s.headSent == r.chunks[s.chunk].After {
				step := min(n, r.chunks[s.chunk].Size-s.inChunk)
				n -= step
				s.inChunk += step
				if s.inChunk < r.chunks[s.chunk].Size {
					return
				}
				s.chunk, s.inChunk = s.chunk+1, 0
				continue
			}
			end := len(r.head)
			if s.chunk < len(r.chunks) {
				end = r.chunks[s.chunk].After
			}
			step := min(n, end-s.headSent)
			n -= step
			s.headSent += step
			if s.headSent < end {
				return
			}
		}
		s.first, s.headSent, s.chunk = r.next, 0, 0
		r.next = nil
		s.done++
		s.doneBytes += r.size
		r.sent()
	}
}

// drop ends the answers that will not be sent any more.
func (s *sender) drop() {
	for r := s.first; r != nil; r = s.first {
		s.first = r.next
		r.next = nil
		r.discard()
	}
}
