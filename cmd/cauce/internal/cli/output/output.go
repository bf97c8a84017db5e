package output

import (
	"encoding/json"
	"fmt"
	"io"
)

// Format is how a command prints its result. It is a flag value.
type Format string

// The formats that every command knows.
const (
	Tabular Format = "table"
	JSON    Format = "json"
)

// Set parses the value of an --output flag.
func (f *Format) Set(s string) error {
	switch Format(s) {
	case Tabular, JSON:
		*f = Format(s)
		return nil
	}
	return fmt.Errorf("must be %s or %s", Tabular, JSON)
}

func (f *Format) String() string { return string(*f) }

// Type names the value in help texts.
func (f *Format) Type() string { return "table|json" }

// WriteJSON writes v as one indented document, leaving <, > and & readable.
func WriteJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// Bytes words a size for people, in powers of 1024: "512 B", "1.5 KiB", "20.0 GiB". Negative sizes are unknown: "-".
func Bytes(n int64) string {
	if n < 0 {
		return "-"
	}
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	size := float64(n)
	unit := -1
	for size >= 1024 && unit < len(units)-1 {
		size /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %s", size, units[unit])
}

var units = []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
