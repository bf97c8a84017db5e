// Package output writes what commands print: aligned tables for people, JSON for scripts.
package output

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const columnGap = "  "

// A Column is one column of a Table. Numbers read best aligned right.
type Column struct {
	Title string
	Right bool
}

// Left is a column of text.
func Left(title string) Column { return Column{Title: title} }

// Right is a column of numbers.
func Right(title string) Column { return Column{Title: title, Right: true} }

// A Table collects rows and writes them aligned, so that awk and eyes can both read them: every cell
// is there ("-" stands for nothing) and no line ends in blanks.
type Table struct {
	columns []Column
	rows    [][]string
}

// NewTable returns an empty table. The title line is left out when no column has a title.
func NewTable(columns ...Column) *Table { return &Table{columns: columns} }

// Row adds a row; cells are printed with %v. It panics when there are more cells than columns.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(t.columns))
	for i := range row {
		row[i] = "-"
	}
	for i, cell := range cells {
		if text := fmt.Sprint(cell); text != "" {
			row[i] = text
		}
	}
	t.rows = append(t.rows, row)
}

// Empty says whether no row was added.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

// Write writes the title line and the rows.
func (t *Table) Write(w io.Writer) error {
	widths := make([]int, len(t.columns))
	titles := make([]string, len(t.columns))
	titled := false
	for i, column := range t.columns {
		titles[i] = column.Title
		titled = titled || column.Title != ""
		widths[i] = utf8.RuneCountInString(column.Title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	buffered := bufio.NewWriter(w)
	if titled {
		buffered.WriteString(t.line(titles, widths))
	}
	for _, row := range t.rows {
		buffered.WriteString(t.line(row, widths))
	}
	return buffered.Flush()
}

func (t *Table) line(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		if i > 0 {
			b.WriteString(columnGap)
		}
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if t.columns[i].Right {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}
