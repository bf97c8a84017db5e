package process

import (
	"fmt"
	"runtime"
)

// Version and Commit are stamped in by the linker (see the Makefile).
var (
	Version = "dev"
	Commit  = ""
)

// VersionLine returns one line that says which program this is.
func VersionLine(program string) string {
	commit := Commit
	if commit == "" {
		commit = "unknown"
	}
	return fmt.Sprintf("%s %s (commit %s, %s, %s/%s)", program, Version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
