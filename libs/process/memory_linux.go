package process

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// availableMemory returns the bytes that the process may use at most: those of
// its control group, or of the machine; 0 when neither is known.
func availableMemory() int64 {
	limit := int64(0)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		limit = int64(info.Totalram) * int64(info.Unit)
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return limit
	}
	return groupMemory(string(membership), limit, func(file string) string {
		text, _ := os.ReadFile(path.Join("/sys/fs/cgroup", file))
		return string(text)
	})
}

// groupMemory lowers limit to the least memory limit of the control groups
// named by membership, the text of /proc/self/cgroup, and of their parents.
func groupMemory(membership string, limit int64, read func(file string) string) int64 {
	for line := range strings.Lines(membership) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, file := "/", "memory.max" // control groups v2
		if parts[1] == "memory" {
			root, file = "/memory", "memory.limit_in_bytes" // v1
		} else if parts[1] != "" {
			continue
		}
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			n, err := strconv.ParseInt(strings.TrimSpace(read(path.Join(root, group, file))), 10, 64)
			if err == nil && n > 0 && (limit == 0 || n < limit) {
				limit = n
			}
			if group == "/" {
				break
			}
		}
	}
	return limit
}
