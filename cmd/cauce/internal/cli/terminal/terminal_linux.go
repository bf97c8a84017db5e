package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

func size(f *os.File) (columns, lines int, ok bool) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	return int(w.Col), int(w.Row), true
}

// KeyByKey has a terminal give each key at once and unseen, instead of lines, until restore is called. What is no terminal stays as
// it is.
func KeyByKey(in any) (restore func() error) {
	nothing := func() error { return nil }
	file, ok := in.(*os.File)
	if !ok {
		return nothing
	}
	fd := int(file.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nothing
	}
	now := *before
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &now); err != nil {
		return nothing
	}
	return func() error { return unix.IoctlSetTermios(fd, unix.TCSETS, before) }
}
