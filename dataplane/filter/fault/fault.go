// Package fault decides which requests are held back and which are answered with
// an error, for those who want to see how clients bear it. What is done about the
// decision is the proxy's.
package fault

import (
	"time"

	"github.com/headgate/headgate/dataplane/filter/sample"
)

// Config says what is put in. The zero value puts nothing in.
type Config struct {
	DelayPercent float64 // of the requests
	Delay        time.Duration
	AbortPercent float64 // of the requests
	AbortStatus  int
}

// Fault makes the decisions of one route.
type Fault struct {
	config Config
	delay  *sample.Portion
	abort  *sample.Portion
}

// New makes a Fault. seed is where its portions begin.
func New(c Config, seed uint64) *Fault {
	return &Fault{
		config: c,
		delay:  sample.New(c.DelayPercent, sample.RootTwo, seed),
		abort:  sample.New(c.AbortPercent, sample.RootThree, seed),
	}
}

// Decision is what happens to a request. The zero value is nothing.
type Decision struct {
	Delay  time.Duration // how long it is held back
	Status int           // what it is answered with afterwards; 0: it goes on
}

// Decide decides about the next request. Being held back and being answered are
// independent of each other.
func (f *Fault) Decide() (d Decision) {
	if f.config.Delay > 0 && f.delay.Takes() {
		d.Delay = f.config.Delay
	}
	if f.config.AbortStatus != 0 && f.abort.Takes() {
		d.Status = f.config.AbortStatus
	}
	return d
}

// String is what the log says of it.
func (d Decision) String() string {
	switch {
	case d.Delay > 0 && d.Status != 0:
		return "delay, abort"
	case d.Delay > 0:
		return "delay"
	case d.Status != 0:
		return "abort"
	}
	return ""
}
