package server

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errWouldBlock says that the socket takes no more bytes for now.
var errWouldBlock = unix.EAGAIN

// errShortFile says that a file ended before a range of it that was promised to the client.
var errShortFile = errors.New("file is shorter than the range to send")

// gather is a list of memory ranges for one system call. It lives in the connection, since the kernel is
// given its address.
type gather struct {
	iov   [maxGather]unix.Iovec
	msg   unix.Msghdr
	n     int
	bytes int
}

func (g *gather) reset() { g.n, g.bytes = 0, 0 }

func (g *gather) full() bool { return g.n == len(g.iov) }

func (g *gather) add(b []byte) {
	g.iov[g.n].Base = &b[0]
	g.iov[g.n].SetLen(len(b))
	g.n++
	g.bytes += len(b)
}

// sendGathered writes as much as the socket takes. more says that further bytes follow at once, so that a
// response head does not leave in a packet of its own.
func sendGathered(fd uintptr, g *gather, more bool) (int, error) {
	flags := unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT
	if more {
		flags |= unix.MSG_MORE
	}
	g.msg = unix.Msghdr{Iov: &g.iov[0]}
	g.msg.SetIovlen(g.n)
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&g.msg)), uintptr(flags))
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// sendFile writes as much of a file range as the socket takes, from the offset given: the file's own position
// is shared by all who read it. The caller of Finish keeps the file open until release, so its descriptor
// cannot name another file here.
func sendFile(fd uintptr, f *os.File, offset int64, size int) (int, error) {
	for {
		n, err := unix.Sendfile(int(fd), int(f.Fd()), &offset, size)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, errShortFile
		default:
			return n, nil
		}
	}
}
