// Package terminal knows what the command line may do with the terminal that it writes to, if it is one.
package terminal

import (
	"io"
	"os"
	"strconv"
)

// Clear moves the cursor home and empties the screen.
const Clear = "\x1b[H\x1b[2J"

// DefaultWidth is the width of what is no terminal, in columns.
const DefaultWidth = 100

// Is says whether w is a terminal.
func Is(w any) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Size is how many columns and lines w has: a terminal's, or $COLUMNS and $LINES; the default width and no lines, which stand for
// as many as one likes, where neither is known.
func Size(w io.Writer) (columns, lines int) {
	if file, ok := w.(*os.File); ok {
		if columns, lines, ok := size(file); ok && columns > 0 {
			return columns, lines
		}
	}
	columns, lines = number("COLUMNS"), number("LINES")
	if columns == 0 {
		columns = DefaultWidth
	}
	return columns, lines
}

func number(variable string) int {
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil || n < 0 {
		return 0
	}
	return n
}
