package snapshot

import (
	"maps"
	"slices"
	"strings"
)

// Nearest is the name that a misspelt one was probably meant to be, or "": at
// most a third of its letters differ. Ties go to the first in order.
func Nearest(name string, names []string) string {
	best, limit := "", max(1, len(name)/3)
	for _, candidate := range names {
		if d := distance(name, candidate, limit); d < limit || d == limit && best == "" {
			best, limit = candidate, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour that make a into b, without regard to case (optimal string
// alignment); anything above limit is limit+1.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	above, row, below := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		below[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost = 1 + min(row[j], row[j+1], below[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, 1+above[j-1])
			}
			below[j+1] = cost
		}
		above, row, below = row, below, above
	}
	return min(row[len(b)], limit+1)
}

// maxListed bounds the names that a message lists, and maxCompared those that a
// misspelt name is compared with.
const (
	maxListed   = 8
	maxCompared = 2000
)

// suggest says what a missing name may have been meant to be: the nearest that
// there is, or else those that there are, if they are few.
func suggest[V any](name, kind string, known map[string]V) string {
	if len(known) == 0 {
		return "there are no " + kind
	}
	names := make([]string, 0, min(len(known), maxCompared))
	for candidate := range maps.Keys(known) {
		if names = append(names, candidate); len(names) == maxCompared {
			break
		}
	}
	slices.Sort(names)
	if near := Nearest(name, names); near != "" {
		return "did you mean " + quote(near) + "?"
	}
	if len(names) > maxListed {
		return "none of the " + kind + " has a name like it"
	}
	return "there are " + strings.Join(names, ", ")
}
