// Package measure is what the load programs tell: how long requests took, and what the server's processor spent on them.
package measure

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ticksPerSecond is Linux's USER_HZ, the unit of /proc/PID/stat.
const ticksPerSecond = 100

// CPU is the processor time of a process so far in seconds, 0 for process 0.
func CPU(pid int) (float64, error) {
	if pid == 0 {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may have spaces; utime and stime are the 12th and 13th fields after it.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond, nil
}

// ResidentMiB is the memory of a process that is not swapped out (VmRSS of /proc/PID/status).
func ResidentMiB(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(text), "\nVmRSS:")
	if !ok {
		return 0, fmt.Errorf("process %d has no resident memory", pid)
	}
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return kib / 1024, err
}

// Sample is the waits of all requests of a kind. The zero value is an empty one.
type Sample struct {
	mu     sync.Mutex
	took   []time.Duration
	errors map[string]int
}

// Add counts a request, or its failure.
func (s *Sample) Add(took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if s.errors == nil {
			s.errors = map[string]int{}
		}
		s.errors[err.Error()]++
		return
	}
	s.took = append(s.took, took)
}

// Count is the number of requests that succeeded.
func (s *Sample) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.took)
}

// Title is the heading of what Print prints after the columns that a program has of its own.
func Title() string {
	return fmt.Sprintf("%10s %10s %10s %10s %8s", "per second", "p50 ms", "p99 ms", "max ms", "errors")
}

// Print prints a line that begins with a name, and one for each kind of error.
func (s *Sample) Print(name string, over time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.took)
	at := func(q float64) float64 {
		if len(s.took) == 0 {
			return 0
		}
		return float64(s.took[int(q*float64(len(s.took)-1))].Microseconds()) / 1e3
	}
	failures := 0
	for _, n := range s.errors {
		failures += n
	}
	fmt.Printf("%s %10.0f %10.2f %10.2f %10.2f %8d\n", name, float64(len(s.took))/over.Seconds(), at(0.5), at(0.99), at(1), failures)
	for text, n := range s.errors {
		fmt.Printf("  %d times: %s\n", n, text)
	}
}
