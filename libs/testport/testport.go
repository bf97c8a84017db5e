// Package testport gives tests ports of the loopback address, for servers that must come back at the same one or be known to
// others before they start. Asking the system for a free port and closing it again is not enough: it comes from the range that
// connections take theirs from, and any connection of any test may have it before the server listens.
package testport

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// Ports are below those that systems give to connections, and above those of well-known servers. A process takes them by
// blocks, each under a lock file that it holds until it ends.
const (
	lowest    = 10_000
	highest   = 30_000
	blockSize = 100
)

var claimed struct {
	sync.Mutex
	next, end int // ports of the block in use that were not given yet
	locks     []*os.File
}

// Address is a loopback address that nothing listens on and that no other test is given.
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Range(t, 1)))
}

// Range is where count ports in a row begin, each as those of [Address]; count is at most 100.
func Range(t testing.TB, count int) int {
	t.Helper()
	base, err := Claim(count)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// Claim is [Range] for what serves several tests and has none of its own.
func Claim(count int) (base int, err error) {
	claimed.Lock()
	defer claimed.Unlock()
	if count < 1 || count > blockSize {
		return 0, fmt.Errorf("%d ports asked for, which is not between 1 and %d", count, blockSize)
	}
	for {
		for claimed.end-claimed.next >= count {
			base := claimed.next
			taken, err := firstTaken(base, count)
			if err == nil {
				claimed.next = base + count
				return base, nil
			}
			claimed.next = taken + 1
		}
		if err := claimBlock(); err != nil {
			return 0, err
		}
	}
}

// firstTaken is the first port of a range that cannot be listened on, with the reason; nil when all can.
func firstTaken(base, count int) (int, error) {
	for port := base; port < base+count; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return port, err
		}
		l.Close()
	}
	return 0, nil
}

func claimBlock() error {
	dir := filepath.Join(os.TempDir(), "cauce-testports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	blocks := (highest - lowest) / blockSize
	for i := range blocks {
		base := lowest + (os.Getpid()+i)%blocks*blockSize
		lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(base)), os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			return err
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			lock.Close()
			continue
		}
		claimed.locks = append(claimed.locks, lock)
		claimed.next, claimed.end = base, base+blockSize
		return nil
	}
	return fmt.Errorf("other processes hold all %d blocks of ports in %s", blocks, dir)
}
