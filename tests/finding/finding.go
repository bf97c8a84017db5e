// Package finding counts what checks of a history find wrong, by kind.
package finding

import (
	"cmp"
	"fmt"
	"slices"
)

// Kind of a violation.
type Kind string

// Finding is a kind of violation that was found. Examples are counted, the first few told.
type Finding struct {
	Kind     Kind
	Count    int
	Examples []string
}

// MaxExamples of a kind are told.
const MaxExamples = 5

// List has one finding of each kind that was found.
type List []Finding

// Add notes an example of a kind.
func (l *List) Add(kind Kind, format string, args ...any) {
	i := slices.IndexFunc(*l, func(x Finding) bool { return x.Kind == kind })
	if i < 0 {
		i = len(*l)
		*l = append(*l, Finding{Kind: kind})
	}
	x := &(*l)[i]
	x.Count++
	if len(x.Examples) < MaxExamples {
		x.Examples = append(x.Examples, fmt.Sprintf(format, args...))
	}
}

// Sort has the findings in the order of their kinds.
func (l List) Sort(order ...Kind) {
	slices.SortStableFunc(l, func(a, b Finding) int { return cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)) })
}
