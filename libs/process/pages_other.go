//go:build !linux

package process

// dropProgramPages is for Linux.
func dropProgramPages() error { return nil }
