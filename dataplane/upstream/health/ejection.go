package health

import "time"

// MaxEjectionTime bounds a single ejection.
const MaxEjectionTime = 300 * time.Second

// Ejection is whether and until when one endpoint is put aside. Each ejection
// lasts longer than the one before; the count of them falls by one for each
// MaxEjectionTime that passes in service. The zero value is in service.
type Ejection struct {
	times  int
	active bool
	until  int64 // when it ends, if active
	ended  int64 // when the last one ended
}

// Active reports whether the endpoint is put aside.
func (e *Ejection) Active() bool { return e.active }

// Until is when the ejection ends.
func (e *Ejection) Until() int64 { return e.until }

// Times is how many ejections count at the moment.
func (e *Ejection) Times() int { return e.times }

// Eject puts the endpoint aside for base times the number of ejections.
func (e *Ejection) Eject(now int64, base time.Duration) (until int64) {
	if e.times > 0 {
		forgotten := (now - e.ended) / int64(MaxEjectionTime)
		e.times -= int(min(int64(e.times), forgotten))
	}
	e.times++
	length := MaxEjectionTime
	if base < MaxEjectionTime/time.Duration(e.times) {
		length = base * time.Duration(e.times)
	}
	e.active, e.until = true, now+int64(length)
	return e.until
}

// End brings the endpoint back, at Until or before.
func (e *Ejection) End(now int64) { e.active, e.ended = false, now }

// Population is what a cluster looks like to an endpoint about to be ejected.
type Population struct {
	Endpoints int // with a weight
	Ejected   int // of these
	Others    int // that are available, not counting the one in question
}

// MayEject reports whether one more endpoint may be put aside: never the last
// one that is available, and no more than maxPercent of all, but one at least
// if maxPercent is not 0.
func MayEject(p Population, maxPercent int) bool {
	if p.Others == 0 || maxPercent <= 0 {
		return false
	}
	return p.Ejected == 0 || (p.Ejected+1)*100 <= maxPercent*p.Endpoints
}

// Panic reports whether so few endpoints are available that health says more
// about the check than about them, and is ignored. threshold is in percent of
// all; 0 means never.
func Panic(available, endpoints, threshold int) bool {
	return available*100 < threshold*endpoints
}
