package retry

import (
	"strings"
	"time"
)

// maxAfter bounds what is read of a Retry-After; nobody waits as long.
const maxAfter = 24 * time.Hour

// After is how long a Retry-After asks to wait: seconds, or a date in one of the
// forms of RFC 9110 section 5.6.7 (section 10.2.3). It is 0 for a date that is
// over and for what is neither, and a day at most.
func After(value []byte, now time.Time) time.Duration {
	text := strings.TrimSpace(string(value))
	if seconds, ok := digits(text); ok {
		return seconds
	}
	for _, layout := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if at, err := time.Parse(layout, text); err == nil {
			return min(max(0, at.Sub(now)), maxAfter)
		}
	}
	return 0
}

// digits reads seconds, which are digits and nothing else.
func digits(text string) (time.Duration, bool) {
	n := int64(0)
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = min(n*10+int64(text[i]-'0'), int64(maxAfter/time.Second))
	}
	return time.Duration(n) * time.Second, len(text) > 0
}
