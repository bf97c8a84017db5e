package config

import "iter"

// Nearest returns the candidate that differs least from name, or "" when none
// is close enough to be a likely slip of the pen: more than a third of the
// letters, or more than three, would have to change.
func Nearest(name string, candidates iter.Seq[string]) string {
	limit := min(3, max(1, len(name)/3))
	best, bestDistance := "", limit+1
	for c := range candidates {
		if d := distance(name, c, bestDistance); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour to make b of a (optimal string alignment), or at least limit
// when there are that many.
func distance(a, b string, limit int) int {
	if abs(len(a)-len(b)) >= limit {
		return limit
	}
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}

func abs(n int) int { return max(n, -n) }
