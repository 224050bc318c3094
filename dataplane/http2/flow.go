package http2

import "github.com/headgate/headgate/dataplane/socket"

// A stream's window follows its path: it doubles while the reader consumes more
// than half of it in less than the time in which a window of that size would hold
// the peer back, which is a few round trips. A slow reader never makes it grow.

// trip is the round trip to the peer, in nanoseconds.
type trip struct {
	time  int64 // 0: not known
	asked int64 // when a PING was sent that is not answered, or 0
	last  int64 // when it was measured last
}

// sample takes a measurement. A shorter one counts at once: a longer one may be
// the peer's delay.
func (t *trip) sample(d int64) {
	if d <= 0 {
		d = 1
	}
	if t.time == 0 || d < t.time {
		t.time = d
	} else {
		t.time += (d - t.time) / 8
	}
}

const (
	tripsPerWindow = 4
	tripInterval   = 1_000_000_000 // between measurements
)

// startEpoch begins the measurement of how fast a body is consumed. mu is held.
func (s *Stream) startEpoch(now int64) {
	if s.epochStart == 0 {
		s.epochStart = now
	}
}

// creditLocked gives the peer credit for n bytes that were consumed, half of the
// window at a time. mu is held.
func (s *Stream) creditLocked(n int) {
	s.owed += n
	if s.recvEnd || !s.listed || s.owed < s.window/2 || s.owed == 0 || s.id == 0 {
		return
	}
	s.epochBytes += s.owed
	s.owed += s.grow()
	c := s.c
	c.reserve(16)
	c.out = appendWindowUpdate(c.out, s.id, s.owed)
	s.recvWindow += int64(s.owed)
	s.owed = 0
	c.kick()
}

// grow widens the window if the path wants it, and returns by how much. mu is
// held.
func (s *Stream) grow() int {
	c := s.c
	now := socket.Now()
	c.measure(now)
	elapsed := now - s.epochStart
	fast := float64(elapsed) < tripsPerWindow*float64(c.trip.time)*float64(s.epochBytes)/float64(s.window)
	s.epochStart, s.epochBytes = now, 0
	more := min(s.window, c.o.MaxStreamWindow-s.window, c.o.ConnWindow-c.grown)
	if !fast || more <= 0 {
		return 0
	}
	s.window += more
	c.grown += more
	return more
}

// measure asks the peer for the round trip now and then. mu is held.
func (c *conn) measure(now int64) {
	t := &c.trip
	if t.asked != 0 || t.last != 0 && now-t.last < tripInterval {
		return
	}
	t.asked, t.last = now, now
	c.reserve(32)
	c.out = appendPing(c.out, 0, pingTrip)
}
