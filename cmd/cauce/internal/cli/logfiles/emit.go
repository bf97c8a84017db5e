package logfiles

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A row is one entry of a dumped file: a line of a table, or a JSON object of its own. Files can be
// long, so rows are written as they are read and columns have fixed widths.
type row interface {
	columns() []column
	cells() []any
}

type column struct {
	title string
	width int // negative: aligned left
}

// emitter writes the rows of one file after the other.
type emitter struct {
	out    *bufio.Writer
	json   bool
	titled bool // the current file's titles are written
	files  int
}

// begin begins a file under a heading.
func (e *emitter) begin(heading string) {
	if !e.json {
		if e.files > 0 {
			fmt.Fprintln(e.out)
		}
		fmt.Fprintln(e.out, heading)
	}
	e.files++
	e.titled = false
}

// row writes one entry; what it returns is a fault of the output.
func (e *emitter) row(r row) error {
	if e.json {
		encoder := json.NewEncoder(e.out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(r)
	}
	columns := r.columns()
	if !e.titled {
		e.titled = true
		titles := make([]any, len(columns))
		for i, column := range columns {
			titles[i] = column.title
		}
		if err := e.line(columns, titles); err != nil {
			return err
		}
	}
	return e.line(columns, r.cells())
}

func (e *emitter) line(columns []column, cells []any) error {
	var b strings.Builder
	for i, cell := range cells {
		if i > 0 {
			b.WriteString("  ")
		}
		text := fmt.Sprint(cell)
		if text == "" {
			text = "-"
		}
		width := columns[i].width
		pad := strings.Repeat(" ", max(max(width, -width)-utf8.RuneCountInString(text), 0))
		if width < 0 {
			b.WriteString(text + pad)
		} else {
			b.WriteString(pad + text)
		}
	}
	_, err := io.WriteString(e.out, strings.TrimRight(b.String(), " ")+"\n")
	return err
}

// text writes lines as they are; JSON output leaves them out.
func (e *emitter) text(b []byte) error {
	if e.json {
		return nil
	}
	_, err := e.out.Write(b)
	return err
}
