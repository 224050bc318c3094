package socket

import "time"

// base is where Now counts from.
var base = time.Now()

// Now is the monotonic time in nanoseconds since the process began; it is 2 or more.
func Now() int64 { return int64(time.Since(base)) + 2 }

// nowOf turns a wall-clock time into one of Now: 0 for the zero Time, and fired for
// what is long past.
func nowOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(int64(t.Sub(base))+2, fired)
}

// At turns a time of Now into a wall-clock time.
func At(now int64) time.Time { return base.Add(time.Duration(now - 2)) }
