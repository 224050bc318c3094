// Package sample picks a percentage of requests, for what is to happen to some of
// them only. It is exact in the long run and close to it in the short: of n
// requests in a row it picks the percentage of n, give or take two or three, where
// chance would be off by the root of n. It knows nothing of requests.
package sample

import (
	"math"
	"sync/atomic"
)

// Portion picks its percentage of the requests that Takes is asked about. It is
// a Weyl sequence (Knuth, The Art of Computer Programming, section 3.5): the
// multiples of an irrational number, without their whole part, are spread evenly
// over a unit of length, and those below the percentage are picked. All cores
// share a Portion, so it costs a cache line that they contend for: there is none
// where nothing is to happen.
type Portion struct {
	_     [64]byte
	at    atomic.Uint64
	_     [56]byte
	step  uint64
	bound uint64
	all   bool
}

// Step is an irrational number, as a fraction of 2^64. Portions with different
// steps pick independently of each other.
type Step uint64

// The steps: the golden ratio, and the roots of 2 and 3.
const (
	Golden    Step = 0x9e3779b97f4a7c15
	RootTwo   Step = 0x6a09e667f3bcc909
	RootThree Step = 0xbb67ae8584caa73b
)

// New makes a Portion of a percentage from 0 to 100. seed is where it begins:
// one that is random keeps what is made again and again, as by applies, from
// beginning alike each time.
func New(percent float64, step Step, seed uint64) *Portion {
	p := &Portion{step: uint64(step), all: percent >= 100}
	if !p.all && percent > 0 {
		p.bound = uint64(math.Ldexp(percent/100, 64))
	}
	p.at.Store(seed)
	return p
}

// Takes reports whether the next request is one of those.
func (p *Portion) Takes() bool {
	if p.all || p.bound == 0 {
		return p.all
	}
	return p.at.Add(p.step) < p.bound
}
