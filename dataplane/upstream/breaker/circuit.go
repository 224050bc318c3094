// Package breaker decides when an endpoint that fails is left alone, and when it
// is tried again. It has no clock, lock or goroutine: times are nanoseconds of
// whatever monotonic clock the caller uses, and the caller sees to it that one
// method runs at a time.
//
//	closed ── failures in a row, or a failed probe ──▶ open
//	   ▲                                                │ after OpenFor
//	   └── all trials succeed ── half-open ◀────────────┘
//	                                 └── a trial fails ──▶ open
//
// Only a circuit that a probe opened is closed by a probe.
package breaker

import "time"

// State is what a circuit lets through.
type State uint8

const (
	// Closed lets all requests through.
	Closed State = iota
	// Open lets none through.
	Open
	// HalfOpen lets some through, to try the endpoint.
	HalfOpen
)

var stateNames = [...]string{"closed", "open", "half-open"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}

// Config is how soon a circuit opens and closes. Numbers below 1 count as 1.
type Config struct {
	ConsecutiveFailures int           // in a row that open it
	OpenFor             time.Duration // before it is tried again
	HalfOpenRequests    int           // trials, all of which must succeed
}

// Ticket says under which state an attempt began. Attempts from before the last
// change say nothing of the time after it.
type Ticket struct {
	epoch uint32
	trial bool
}

// Circuit is the state of one endpoint. The zero value is closed.
type Circuit struct {
	state  State
	epoch  uint32 // of changes
	probed bool   // it was a probe that opened it
	until  int64  // when it is tried again (Open), or trials are overdue (HalfOpen)
	given  int    // trials begun and not taken back
	passed int    // trials that succeeded
}

// State is Closed, Open or HalfOpen.
func (c *Circuit) State() State { return c.state }

// Epoch counts the changes of state.
func (c *Circuit) Epoch() uint32 { return c.epoch }

// Until is when Tick is due; 0 if the circuit is closed.
func (c *Circuit) Until() int64 { return c.until }

// Trials is how many trials are under way.
func (c *Circuit) Trials() int { return c.given - c.passed }

// NewTicket is for an attempt that is no trial and begins in the given epoch.
func NewTicket(epoch uint32) Ticket { return Ticket{epoch: epoch} }

// Current is a ticket as an attempt that the circuit let through last has it.
func (c *Circuit) Current() Ticket {
	return Ticket{epoch: c.epoch, trial: c.state == HalfOpen && c.given > c.passed}
}

// Epoch is that of the beginning of the attempt.
func (t Ticket) Epoch() uint32 { return t.epoch }

// Trial reports whether the attempt tries a half-open circuit.
func (t Ticket) Trial() bool { return t.trial }

// Admits reports whether one more attempt may begin.
func (c *Circuit) Admits(config Config) bool {
	return c.state == Closed || c.state == HalfOpen && c.given < max(1, config.HalfOpenRequests)
}

// Admit begins an attempt, unless the circuit does not let it through.
func (c *Circuit) Admit(config Config) (Ticket, bool) {
	if !c.Admits(config) {
		return NewTicket(c.epoch), false
	}
	if c.state == HalfOpen {
		c.given++
	}
	return Ticket{epoch: c.epoch, trial: c.state == HalfOpen}, true
}

// Succeeded ends an attempt that went well, and reports whether that closed the
// circuit.
func (c *Circuit) Succeeded(t Ticket, config Config) (changed bool) {
	if !c.tries(t) {
		return false
	}
	if c.passed++; c.passed < max(1, config.HalfOpenRequests) {
		return false
	}
	c.become(Closed, 0)
	return true
}

// Failed ends an attempt that failed, the last of run in a row, and reports
// whether that opened the circuit.
func (c *Circuit) Failed(now int64, t Ticket, run int, config Config) (changed bool) {
	closed := c.state == Closed && t.epoch == c.epoch && run >= config.ConsecutiveFailures
	if !closed && !c.tries(t) {
		return false
	}
	c.open(now, config)
	c.probed = false
	return true
}

// Ignored ends an attempt from which nothing was learnt: its place as a trial is
// free again.
func (c *Circuit) Ignored(t Ticket) {
	if c.tries(t) {
		c.given--
	}
}

// tries reports whether t is a trial of the state the circuit is in.
func (c *Circuit) tries(t Ticket) bool {
	return t.trial && c.state == HalfOpen && t.epoch == c.epoch
}

// ProbeFailed opens the circuit if it is closed, and reports whether it was.
// Whether a failed probe says enough is for the caller to know.
func (c *Circuit) ProbeFailed(now int64, config Config) (changed bool) {
	if c.state != Closed {
		return false
	}
	c.open(now, config)
	c.probed = true
	return true
}

// ProbeSucceeded closes the circuit if a probe opened it and no trial has failed
// since, and reports whether it did.
func (c *Circuit) ProbeSucceeded() (changed bool) {
	if c.state == Closed || !c.probed {
		return false
	}
	c.become(Closed, 0)
	return true
}

// Tick reports whether the time has changed something: an open circuit becomes
// half-open after OpenFor. Trials that have not ended after another OpenFor are
// no longer waited for; a tunnel may last for days.
func (c *Circuit) Tick(now int64, config Config) (changed bool) {
	switch {
	case c.state == Closed || now < c.until:
		return false
	case c.state == Open:
		c.become(HalfOpen, now+int64(config.OpenFor))
		return true
	}
	c.given, c.until = c.passed, now+int64(config.OpenFor)
	c.epoch++
	return false
}

// Close closes the circuit whatever it was: there is no breaker any more.
func (c *Circuit) Close() (changed bool) {
	if c.state == Closed {
		return false
	}
	c.become(Closed, 0)
	return true
}

func (c *Circuit) open(now int64, config Config) { c.become(Open, now+int64(config.OpenFor)) }

func (c *Circuit) become(s State, until int64) {
	c.state, c.until = s, until
	c.epoch++
	c.given, c.passed = 0, 0
	if s == Closed {
		c.probed = false
	}
}
