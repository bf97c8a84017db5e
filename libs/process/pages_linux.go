package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dropProgramPages gives back the pages of the program's own file, code and constants, that are mapped into the process: about all of them are after its
// start, as the kernel maps what lies around each page that is needed. What is needed again comes back from the page cache.
func dropProgramPages() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(maps)) {
		start, end, ok := readOnly(line, program)
		if !ok {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise %x-%x: %w", start, end, errno)
		}
	}
	return nil
}

// readOnly reads a line of /proc/self/maps, and says whether it is a part of the program that nobody can have written to.
func readOnly(line, program string) (start, end uintptr, ok bool) {
	fields := strings.Fields(line)
	if len(fields) != 6 || fields[5] != program || (fields[1] != "r-xp" && fields[1] != "r--p") {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(fields[0], "-")
	first, err := strconv.ParseUint(from, 16, 64)
	if err != nil {
		return 0, 0, false
	}
	last, err := strconv.ParseUint(to, 16, 64)
	return uintptr(first), uintptr(last), err == nil && last > first
}
