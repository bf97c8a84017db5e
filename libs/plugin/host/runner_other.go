//go:build !linux

package host

import "syscall"

// processAttributes put a plugin into a group of its own. That the host has ended it sees by its standard input.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
