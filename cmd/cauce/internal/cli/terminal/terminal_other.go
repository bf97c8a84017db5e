//go:build !linux

package terminal

import (
	"io"
	"os"
)

func size(*os.File) (columns, lines int, ok bool) { return 0, 0, false }

// Keys are those that are pressed on a terminal.
type Keys struct{}

// OpenKeys is nil: keys are not read one by one here.
func OpenKeys(any) *Keys { return nil }

// Next has none.
func (*Keys) Next() (key byte, err error) { return 0, io.EOF }

// Close does nothing.
func (*Keys) Close() error { return nil }
