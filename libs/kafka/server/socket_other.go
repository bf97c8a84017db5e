//go:build !linux

package server

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// errWouldBlock says that the socket takes no more bytes for now.
var errWouldBlock = unix.EAGAIN

// errShortFile says that a file ended before a range of it that was promised to the client.
var errShortFile = errors.New("file is shorter than the range to send")

// gather is a list of memory ranges to write.
type gather struct {
	parts [maxGather][]byte
	n     int
	bytes int
}

func (g *gather) reset() { g.n, g.bytes = 0, 0 }

func (g *gather) full() bool { return g.n == len(g.parts) }

func (g *gather) add(b []byte) {
	g.parts[g.n] = b
	g.n++
	g.bytes += len(b)
}

// sendGathered writes as much as the socket takes.
func sendGathered(fd uintptr, g *gather, _ bool) (int, error) {
	sent := 0
	for _, part := range g.parts[:g.n] {
		n, err := unix.Write(int(fd), part)
		sent += max(n, 0)
		if err != nil || n < len(part) {
			if sent > 0 {
				err = nil
			}
			return sent, err
		}
	}
	return sent, nil
}

// sendFile writes as much of a file range as the socket takes, from the offset given.
func sendFile(fd uintptr, f *os.File, offset int64, size int) (int, error) {
	b := make([]byte, min(size, 64<<10))
	if n, err := f.ReadAt(b, offset); n < len(b) {
		if errors.Is(err, io.EOF) {
			err = errShortFile
		}
		return 0, err
	}
	n, err := unix.Write(int(fd), b)
	return max(n, 0), err
}
