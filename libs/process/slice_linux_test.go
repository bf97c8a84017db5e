package process

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestShortenSlices wants the short slice in the threads there are, and in one that is started afterwards.
func TestShortenSlices(t *testing.T) {
	if err := shortenSlices(); err != nil {
		t.Fatal(err)
	}
	if of(t, 0) == 0 {
		t.Skip("this kernel does not tell slices (before Linux 6.12)")
	}
	if got := of(t, 0); got != slice {
		t.Errorf("the slice is %v, not %v", got, slice)
	}
	fresh := make(chan time.Duration)
	go func() {
		runtime.LockOSThread() // a thread that ends with the goroutine, so that another is started
		fresh <- of(t, 0)
	}()
	if got := <-fresh; got != slice {
		t.Errorf("the slice of a later thread is %v, not %v", got, slice)
	}
}

// of is the slice of a thread, 0 the caller's.
func of(t *testing.T, thread int) time.Duration {
	attr, err := unix.SchedGetAttr(thread, 0)
	if err != nil {
		t.Error(err)
		return 0
	}
	return time.Duration(attr.Runtime)
}
