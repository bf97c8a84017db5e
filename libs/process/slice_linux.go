package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// slice is how long a thread runs before others have their turn, the least that Linux takes: a thread with a shorter slice is let in sooner when it wakes up.
// A node's threads run for a tenth of a millisecond and sleep again, and a record passes a dozen of them on its way; others on the machine that compute for
// milliseconds, such as a JVM's, would each hold it up. It costs a busy node nothing that can be measured.
const slice = 100 * time.Microsecond

// shortenSlices has the threads of the process and those to come, which take it from who starts them, run in short slices (Linux 6.12; before, it changes
// nothing).
func shortenSlices() error {
	for range 2 { // a thread that was just being started by one that had the old slice
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				return err
			}
			if err := shortenSlice(id); err != nil && !errors.Is(err, unix.ESRCH) { // ended meanwhile
				return fmt.Errorf("thread %d: %w", id, err)
			}
		}
	}
	return nil
}

// shortenSlice leaves a thread alone that somebody gave a policy of its own.
func shortenSlice(thread int) error {
	attr, err := unix.SchedGetAttr(thread, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL {
		return err
	}
	attr.Runtime = uint64(slice.Nanoseconds())
	return unix.SchedSetAttr(thread, attr, 0)
}
