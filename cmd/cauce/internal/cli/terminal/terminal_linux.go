package terminal

import (
	"errors"
	"io"
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

// Keys are those that are pressed on a terminal.
type Keys struct {
	file   *os.File
	before *unix.Termios
}

// tenths is how many tenths of a second Next waits.
const tenths = 1

// OpenKeys has a terminal give each key at once and unseen, instead of lines, until Close. It is nil for what is no terminal.
func OpenKeys(in any) *Keys {
	file, ok := in.(*os.File)
	if !ok {
		return nil
	}
	before, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	if err != nil {
		return nil
	}
	now := *before
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 0, tenths
	if err := unix.IoctlSetTermios(int(file.Fd()), unix.TCSETS, &now); err != nil {
		return nil
	}
	return &Keys{file, before}
}

// Next waits for a key, a tenth of a second at most; 0 is none. After an error there will be no more.
func (k *Keys) Next() (key byte, err error) {
	var b [1]byte
	if _, err = k.file.Read(b[:]); errors.Is(err, io.EOF) {
		err = nil // nothing was pressed
	}
	return b[0], err
}

// Close has the terminal as it was.
func (k *Keys) Close() error {
	return unix.IoctlSetTermios(int(k.file.Fd()), unix.TCSETS, k.before)
}
