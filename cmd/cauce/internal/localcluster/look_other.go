//go:build !linux

package localcluster

import "syscall"

// look says only whether a process of that number is there: a paused one counts as running, and so does another program's
// that has the number now.
func look(pid int) (state State, started uint64) {
	if syscall.Kill(pid, 0) != nil {
		return Stopped, 0
	}
	return Running, 0
}
