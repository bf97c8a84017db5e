package config

import "fmt"

// ParseProperties returns the entries of a Java .properties text; of several of a name the last one counts. The error names the line.
func ParseProperties(text string) (map[string]string, error) {
	entries := map[string]string{}
	for p, err := range properties(text) {
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", p.line, p.name, err)
		}
		entries[p.name] = p.value
	}
	return entries, nil
}
