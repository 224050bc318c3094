package socket

import "time"

// base is where Now counts from.
var base = time.Now()

// Now is the monotonic time in nanoseconds since the process began; it is 2 or more.
func Now() int64 { return int64(time.Since(base)) + 2 }

// At turns a time of Now into a wall-clock time.
func At(now int64) time.Time { return base.Add(time.Duration(now - 2)) }
