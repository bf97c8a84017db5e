package host

import "syscall"

// processAttributes put a plugin into a group of its own, and have the kernel kill it when the host ends, however that is.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
