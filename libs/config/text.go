package config

import "fmt"

// Entry is what a .properties text has under a name.
type Entry struct {
	Value string
	Line  int // of its first character, from 1
}

// ParseEntries returns the entries of a Java .properties text by name; of several of a name the last one counts. The error names the line.
func ParseEntries(text string) (map[string]Entry, error) {
	entries := map[string]Entry{}
	for p, err := range properties(text) {
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", p.line, p.name, err)
		}
		entries[p.name] = Entry{p.value, p.line}
	}
	return entries, nil
}

// ParseProperties is ParseEntries without the lines.
func ParseProperties(text string) (map[string]string, error) {
	entries, err := ParseEntries(text)
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(entries))
	for name, e := range entries {
		values[name] = e.Value
	}
	return values, nil
}
