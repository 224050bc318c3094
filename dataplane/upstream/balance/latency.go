package balance

import "math"

// Latency is a moving average of the latencies of an endpoint that follows a
// peak at once and forgets it over time, as in Finagle's peak EWMA. It is a
// value of one word, so that it can be swapped atomically. The zero value has
// seen nothing.
//
// The upper half is the average in nanoseconds, as the bits of a float32; the
// lower half is when that was, in ticks of 2^20 ns (about a millisecond), which
// come round after 52 days.
type Latency uint64

const (
	// decay is after how long, in nanoseconds, 1/e of an observation is left.
	decay = 10e9
	// MaxLatency bounds an observation, in nanoseconds: what lasted longer, as a
	// download or a tunnel does, says no more about the next request.
	MaxLatency = 10_000_000_000
	// unseen is the cost, in nanoseconds, of an endpoint from which nothing has
	// come yet but to which something was sent.
	unseen = 1e9
	// A failure counts as failureFactor times the average, failureFloor at
	// least, in nanoseconds: an endpoint that fails fast must not look fast.
	failureFactor = 4
	failureFloor  = 10e6

	tickBits = 20
)

func (l Latency) average() float64 { return float64(math.Float32frombits(uint32(l >> 32))) }

func makeLatency(now int64, average float64) Latency {
	return Latency(math.Float32bits(float32(average)))<<32 | Latency(uint32(now>>tickBits))
}

// left is how much of the average is left at now.
func (l Latency) left(now int64) float64 {
	ticks := int32(uint32(now>>tickBits) - uint32(l))
	if ticks <= 0 {
		return 1
	}
	return halved(uint64(ticks) * halving)
}

// Times in halves of an observation are fixed point: so many bits are below 1.
const halfBits = 40

// halving is the halves in a tick: log2(e) * 2^tickBits / decay.
const halving = 166_331_414

// halved is 2 to the power of -halves within 0.02%, in a fraction of the time of
// math.Exp2: a cubic between powers of two, which it meets exactly, so that it
// falls everywhere.
func halved(halves uint64) float64 {
	whole := halves >> halfBits
	if whole > 1000 {
		return 0
	}
	// 2^-(whole+part) is 2^(1-part) at 2^-(whole+1). The part stands where a number
	// from 1 to 2 has its fraction, which is cheaper than a conversion.
	f := 2 - math.Float64frombits(1023<<52|halves<<(64-halfBits)>>12)
	cubic := (1 + f*0.69606564) + f*f*(0.22449433+f*0.07944003)
	return cubic * math.Float64frombits((1022-whole)<<52)
}

// At is the average, in nanoseconds, if nothing has been seen since.
func (l Latency) At(now int64) float64 { return l.average() * l.left(now) }

// Succeeded is the average after an answer that took latency nanoseconds.
func (l Latency) Succeeded(now, latency int64) Latency {
	observed := float64(min(max(latency, 1), MaxLatency))
	if observed >= l.average() {
		return makeLatency(now, observed)
	}
	left := l.left(now)
	if left == 1 {
		return l // within one tick: it adds nothing, and the clock must not stand still
	}
	return makeLatency(now, l.average()*left+observed*(1-left))
}

// Failed is the average after a failure that took latency nanoseconds.
func (l Latency) Failed(now, latency int64) Latency {
	penalty := max(float64(latency), failureFactor*l.At(now), failureFloor)
	return makeLatency(now, min(penalty, MaxLatency))
}

// Cost is how long one more request is expected to take, in nanoseconds: the
// average once, and again for each request in flight. burden is what one of
// those counts for: 1 at the mean weight, a half at twice as much.
func (l Latency) Cost(now, inFlight int64, burden float64) float64 {
	waiting := float64(max(inFlight, 0)) * burden
	if l == 0 {
		return waiting * unseen
	}
	return l.average() * (1 + waiting) * l.left(now)
}
