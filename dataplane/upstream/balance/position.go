package balance

import "sync/atomic"

// Position is where a cluster is in its sequence. It outlives the sequence: when
// that is rebuilt, counting goes on, so that a cluster whose endpoints come and
// go does not begin with its first endpoint each time. The zero value is ready.
type Position struct {
	_ [64]byte // alone on its cache line: all cores write it
	n atomic.Uint64
	_ [56]byte
}

// Next is the place of the next request in a sequence of the given length,
// which must be positive.
func (p *Position) Next(length int) int {
	return int((p.n.Add(1) - 1) % uint64(length))
}

// Share is a fraction of 2^64 for the next request. Those of requests in a row
// are spread more evenly than random ones (by the golden ratio; Knuth, The Art of
// Computer Programming, section 6.4).
func (p *Position) Share() uint64 { return p.n.Add(1) * 0x9e3779b97f4a7c15 }
