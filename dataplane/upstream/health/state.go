// Package health holds the state machines that say whether an endpoint should
// get requests: Check hears the results of active probes, Ejection puts an
// endpoint aside that failed the traffic itself. They are separate on purpose:
// a probe that succeeds does not end an ejection.
//
// Nothing here has a clock, a lock or a goroutine. Times are nanoseconds of
// whatever monotonic clock the caller uses.
package health

// State is what an endpoint is to those who choose one.
type State uint8

const (
	// Unknown was never probed; it gets requests.
	Unknown State = iota
	// Healthy passed its last probes.
	Healthy
	// Unhealthy failed its last probes.
	Unhealthy
	// Ejected failed requests and is put aside for a time.
	Ejected
	// Drained was taken out of traffic by hand.
	Drained
)

var stateNames = [...]string{"unknown", "healthy", "unhealthy", "ejected", "drained"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}
