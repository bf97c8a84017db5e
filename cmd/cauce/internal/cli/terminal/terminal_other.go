//go:build !linux

package terminal

import "os"

func size(*os.File) (columns, lines int, ok bool) { return 0, 0, false }

// KeyByKey has no effect here: keys come with the end of their line.
func KeyByKey(any) (restore func() error) { return func() error { return nil } }
