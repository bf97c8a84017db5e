//go:build !linux

package process

// availableMemory is not known on this system.
func availableMemory() int64 { return 0 }
