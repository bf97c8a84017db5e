package localcluster

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// look tells of a process what /proc/PID/stat does: its state, and when it started, in clock ticks since the system did.
func look(pid int) (state State, started uint64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stopped, 0
	}
	// The second field is the program's name, in parentheses, and may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const stateField, startField = 0, 19 // of those after the name
	if len(fields) <= startField {
		return Stopped, 0
	}
	if started, err = strconv.ParseUint(string(fields[startField]), 10, 64); err != nil {
		return Stopped, 0
	}
	switch fields[stateField][0] {
	case 'Z', 'X':
		return Stopped, started
	case 'T', 't':
		return Paused, started
	}
	return Running, started
}
