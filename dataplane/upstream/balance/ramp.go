package balance

import "time"

// RampStart is the percentage of its weight at which an endpoint starts.
const RampStart = 10

// RampSteps is in how many steps it grows to the whole.
const RampSteps = 18

// Ramp is the percentage of its weight that an endpoint has at now, which was
// put in service at since: RampStart percent at first, 100 after window, and on
// a line between, in steps of five.
func Ramp(now, since int64, window time.Duration) int {
	if window <= 0 || now-since >= int64(window) {
		return 100
	}
	step := float64(max(now-since, 0)) / float64(window) * RampSteps
	return RampStart + int(step)*(100-RampStart)/RampSteps
}

// RampStep is how long a step of a ramp lasts, a millisecond at least.
func RampStep(window time.Duration) time.Duration {
	return max(window/RampSteps, time.Millisecond)
}
