package main

import (
	"math/bits"
	"time"
)

// histogram counts latencies in buckets of at most 1/16 of their value, from
// 1 ns on. Its zero value is empty.
type histogram struct {
	counts [64 * 16]int64
	total  int64
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0)))]++
	h.total++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range &other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// quantile returns the upper end of the bucket that holds the q-th part; 0 if
// the histogram is empty.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int64(q * float64(h.total))
	for i, n := range &h.counts {
		if rank -= n; rank < 0 {
			return time.Duration(upperEnd(i))
		}
	}
	return 0
}

// bucketOf maps 0 to 15 to themselves, and each further power of two to 16
// buckets by the four bits below the highest.
func bucketOf(v uint64) int {
	if v < 16 {
		return int(v)
	}
	shift := bits.Len64(v) - 5
	return (shift+1)*16 + int(v>>shift&15)
}

// upperEnd is the largest value of a bucket.
func upperEnd(bucket int) uint64 {
	if bucket < 16 {
		return uint64(bucket)
	}
	shift := bucket/16 - 1
	return uint64(bucket%16+17)<<shift - 1
}
