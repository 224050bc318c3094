package http2

import (
	"math/rand/v2"
	"testing"
)

// The table of streams is a map: whatever is opened and closed, in whatever order.
func TestStreamTableIsAMap(t *testing.T) {
	for _, most := range []int{1, 5, 100, 3000} {
		var table streams
		want := map[uint32]*Stream{}
		open := []uint32{}
		for id := uint32(1); id < 20_000; id += 2 {
			s := &Stream{id: id}
			table.add(s)
			want[id] = s
			open = append(open, id)
			for len(open) > most || rand.IntN(2) == 0 && len(open) > most/2 {
				i := rand.IntN(len(open))
				if rand.IntN(8) > 0 {
					i = 0 // most close in the order in which they were opened
				}
				table.remove(want[open[i]])
				delete(want, open[i])
				open = append(open[:i], open[i+1:]...)
			}
			compareStreams(t, &table, want, id)
		}
		if len(table.slots) > maxSlots {
			t.Errorf("%d slots for %d streams", len(table.slots), most)
		}
	}
}

func compareStreams(t *testing.T, table *streams, want map[uint32]*Stream, last uint32) {
	t.Helper()
	if table.len() != len(want) {
		t.Fatalf("at %d: %d streams, want %d", last, table.len(), len(want))
	}
	for id := last - min(last, 301) + 1; id <= last+2; id++ {
		if table.get(id) != want[id] {
			t.Fatalf("at %d: stream %d is %v, want %v", last, id, table.get(id), want[id])
		}
	}
	if last%501 != 0 {
		return
	}
	seen := map[uint32]bool{}
	for s := range table.all() {
		if seen[s.id] || want[s.id] != s {
			t.Fatalf("at %d: stream %d seen twice, or closed", last, s.id)
		}
		seen[s.id] = true
	}
	if len(seen) != len(want) {
		t.Fatalf("at %d: %d streams seen of %d", last, len(seen), len(want))
	}
}
