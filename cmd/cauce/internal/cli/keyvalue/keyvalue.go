// Package keyvalue is the flag value behind every repeatable `key=value` flag.
package keyvalue

import (
	"errors"
	"iter"
	"strings"
)

// List collects key=value pairs in the order given. The zero value is empty and ready for use.
type List struct {
	pairs [][2]string
}

// Set adds one pair. The key ends at the first "=" and may not be empty; the value may.
func (l *List) Set(s string) error {
	key, value, found := strings.Cut(s, "=")
	if !found || key == "" {
		return errors.New("must be key=value")
	}
	l.pairs = append(l.pairs, [2]string{key, value})
	return nil
}

func (l *List) String() string {
	texts := make([]string, len(l.pairs))
	for i, pair := range l.pairs {
		texts[i] = pair[0] + "=" + pair[1]
	}
	return strings.Join(texts, ",")
}

// Type names the value in help texts.
func (l *List) Type() string { return "key=value" }

// Len returns the number of pairs.
func (l *List) Len() int { return len(l.pairs) }

// All yields the pairs in the order given.
func (l *List) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, pair := range l.pairs {
			if !yield(pair[0], pair[1]) {
				return
			}
		}
	}
}
