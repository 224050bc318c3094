package snapshot

import (
	"fmt"
	"strings"
)

// smallest is the number of routes, or of endpoints, from which on losing half
// of them is more likely a mistake than a wish.
const smallest = 20

// Shrinks reports whether next has fewer than half of the routes or of the
// endpoints of prev, which had 20 or more of them, and says so in a line.
// prev may be nil.
func Shrinks(prev, next *Snapshot) (bool, string) {
	if prev == nil || next == nil {
		return false, ""
	}
	var losses []string
	note := func(kind string, before, after int) {
		if before >= smallest && 2*after < before {
			losses = append(losses, fmt.Sprintf("%d of %d %s", before-after, before, kind))
		}
	}
	note("routes", len(prev.Routes), len(next.Routes))
	note("endpoints", prev.endpoints(), next.endpoints())
	if len(losses) == 0 {
		return false, ""
	}
	return true, "it drops " + strings.Join(losses, " and ")
}

func (s *Snapshot) endpoints() int {
	n := 0
	for _, c := range s.Clusters {
		n += len(c.Endpoints)
	}
	return n
}
