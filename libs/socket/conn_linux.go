//go:build (amd64 || arm64) && !race

package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Conn is a TCP connection.
type Conn struct {
	*net.TCPConn
	in, out transfer
}

// New takes over a connection: it is closed through the Conn, or here if there is an error.
func New(tcp *net.TCPConn) (*Conn, error) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	c := &Conn{TCPConn: tcp}
	c.in = transfer{call: unix.SYS_RECVFROM, flags: unix.MSG_DONTWAIT, whenReady: raw.Read}
	c.out = transfer{call: unix.SYS_SENDTO, flags: unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL, whenReady: raw.Write}
	c.in.tryFn, c.out.tryFn = c.in.try, c.out.try
	return c, nil
}

// Read reads up to len(b) bytes, as [io.Reader].
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	n, err := c.in.do(b)
	if err != nil {
		return 0, c.describe("read", err)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write writes all of b, or returns how much of it the system has taken. Others who write wait.
func (c *Conn) Write(b []byte) (int, error) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	sent := 0
	for sent < len(b) {
		n, err := c.out.do(b[sent:])
		if err != nil {
			return sent, c.describe("write", err)
		}
		sent += n
	}
	return sent, nil
}

// describe makes of an error what package net makes of it.
func (c *Conn) describe(op string, err error) error {
	var known *net.OpError
	if errors.As(err, &known) { // of waiting: a deadline, or a connection that is closed
		err = known.Err
	} else {
		err = os.NewSyscallError(op, err)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// transfer is one direction of a connection. What the call is given and returns lies here, and try is bound once, so that
// nothing is allocated.
type transfer struct {
	call, flags uintptr
	whenReady   func(try func(fd uintptr) bool) error
	tryFn       func(fd uintptr) bool

	mu    sync.Mutex // held through a Read or Write
	b     []byte
	n     int
	errno unix.Errno
}

// do makes the call once the socket is ready for it. mu is held.
func (t *transfer) do(b []byte) (int, error) {
	t.b, t.n, t.errno = b, 0, 0
	err := t.whenReady(t.tryFn)
	t.b = nil
	if err == nil && t.errno != 0 {
		err = t.errno
	}
	return t.n, err
}

// try makes the call, and reports whether it came to an end.
func (t *transfer) try(fd uintptr) bool {
	for {
		n, _, errno := unix.RawSyscall6(t.call, fd, uintptr(unsafe.Pointer(&t.b[0])), uintptr(len(t.b)), t.flags, 0, 0)
		switch errno {
		case 0:
			t.n = int(n)
			return true
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			t.errno = errno
			return true
		}
	}
}
