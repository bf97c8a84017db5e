package socket

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// pair is the two ends of a connection over loopback.
func pair(t testing.TB) (a, b *Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ends := make([]*Conn, 2)
	for i, c := range []net.Conn{dialled, accepted} {
		if ends[i], err = New(c.(*net.TCPConn)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0], ends[1]
}

// As much as this fills every buffer on its way, so both ends have to wait for each other.
func TestAllArrivesInOrder(t *testing.T) {
	a, b := pair(t)
	sent := make([]byte, 16<<20)
	rand.NewChaCha8([32]byte{1}).Read(sent)
	wrote := make(chan error, 1)
	go func() {
		n, err := a.Write(sent)
		if err == nil && n != len(sent) {
			err = io.ErrShortWrite
		}
		wrote <- errors.Join(err, a.CloseWrite())
	}()
	got, err := io.ReadAll(b)
	if err := errors.Join(err, <-wrote); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes arrived, and not those that were sent", len(got))
	}
	if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("after the end: %d, %v", n, err)
	}
}

// What two write at once arrives as two pieces.
func TestWritesDoNotMix(t *testing.T) {
	a, b := pair(t)
	if err := a.SetWriteBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	const size = 4 << 20 // of which the system takes a part at a time
	wrote := make(chan error, 2)
	for i := range byte(2) {
		go func() {
			_, err := a.Write(bytes.Repeat([]byte{i}, size))
			wrote <- err
		}()
	}
	got := make([]byte, 2*size)
	_, err := io.ReadFull(b, got)
	if err := errors.Join(err, <-wrote, <-wrote); err != nil {
		t.Fatal(err)
	}
	first := bytes.Repeat(got[:1], size)
	second := bytes.Repeat([]byte{1 - got[0]}, size)
	if !bytes.Equal(got[:size], first) || !bytes.Equal(got[size:], second) {
		t.Error("the pieces are mixed")
	}
}

func TestNothingIsAskedOfTheSystemForNothing(t *testing.T) {
	a, _ := pair(t)
	if n, err := a.Read(nil); n != 0 || err != nil {
		t.Errorf("read: %d, %v", n, err)
	}
	if n, err := a.Write(nil); n != 0 || err != nil {
		t.Errorf("write: %d, %v", n, err)
	}
}

func TestDeadlines(t *testing.T) {
	a, _ := pair(t)
	if err := a.SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := a.Read(make([]byte, 1))
	var timeout net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("read: %v", err)
	}
	n, err := a.Write(make([]byte, 64<<20)) // more than the system keeps for a reader that does not read
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %d, %v", n, err)
	}
}

// Whoever waits for bytes is woken when its own side closes, and told what the other side did.
func TestEnds(t *testing.T) {
	t.Run("closed here", func(t *testing.T) {
		a, _ := pair(t)
		read := make(chan error, 1)
		go func() {
			_, err := a.Read(make([]byte, 1))
			read <- err
		}()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-read; !errors.Is(err, net.ErrClosed) {
			t.Errorf("read: %v", err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write: %v", err)
		}
	})
	t.Run("reset there", func(t *testing.T) {
		a, b := pair(t)
		if err := errors.Join(b.SetLinger(0), b.Close()); err != nil {
			t.Fatal(err)
		}
		_, err := a.Read(make([]byte, 1))
		var op *net.OpError
		if !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &op) || op.Op != "read" || op.Addr == nil {
			t.Errorf("read: %v", err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write: %v", err)
		}
	})
}

func TestNothingIsAllocated(t *testing.T) {
	a, b := pair(t)
	buf := make([]byte, 100)
	allocs := testing.AllocsPerRun(100, func() { pingPong(t, a, b, buf) })
	if allocs > 0 {
		t.Errorf("%.1f allocations for a write and a read", allocs)
	}
}

func pingPong(t testing.TB, a, b io.ReadWriter, buf []byte) {
	if _, err := a.Write(buf); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(b, buf); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkWriteAndRead(b *testing.B) {
	one, other := pair(b)
	ways := map[string][2]io.ReadWriter{"socket": {one, other}, "net": {one.TCPConn, other.TCPConn}}
	for name, ends := range ways {
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 1000)
			b.ReportAllocs()
			for b.Loop() {
				pingPong(b, ends[0], ends[1], buf)
			}
		})
	}
}
