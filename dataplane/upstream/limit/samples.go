package limit

import (
	"math"
	"math/bits"
)

// Samples are latencies, added up. Their logarithms are: a mean of those is not
// moved by a few requests that take a hundred times as long as the others, and a
// queue, which delays the quick ones most in proportion, shows in it first. The
// zero value is none.
type Samples struct {
	Count   int64
	Sum     int64 // of Log
	Squares int64 // of Log, squared
}

// logUnit is one in the result of Log.
const logUnit = 1 << 10

// Log is the binary logarithm of a latency in nanoseconds, in parts of 1/1024. It
// is exact for powers of two and at most 0.09 too low between them (Mitchell,
// Computer Multiplication and Division Using Binary Logarithms, 1962), which is
// the same for equal latencies and so cancels out.
func Log(latency int64) int64 {
	v := uint64(max(1, latency))
	whole := bits.Len64(v) - 1
	rest := v << (63 - whole) << 1 >> (64 - 10)
	return int64(whole)<<10 | int64(rest)
}

// Add takes one in.
func (s *Samples) Add(latency int64) {
	l := Log(latency)
	s.Count++
	s.Sum += l
	s.Squares += l * l
}

// Mean is that of the logarithms, as of base 2 of nanoseconds.
func (s *Samples) Mean() float64 {
	if s.Count == 0 {
		return 0
	}
	return float64(s.Sum) / float64(s.Count) / logUnit
}

// Error is the standard error of Mean.
func (s *Samples) Error() float64 {
	if s.Count < 2 {
		return math.Inf(1)
	}
	n := float64(s.Count)
	mean := float64(s.Sum) / n
	return math.Sqrt(max(0, float64(s.Squares)/n-mean*mean)/(n-1)) / logUnit
}
