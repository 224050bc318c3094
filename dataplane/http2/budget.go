package http2

// budget bounds how much of something useless a peer may do: it is spent by
// that, and comes back with time and with useful work.
type budget struct {
	left, full int
	perSecond  int
	at         int64 // nanoseconds, of the last refill
}

func newBudget(now int64, full, perSecond int) budget {
	return budget{left: full, full: full, perSecond: perSecond, at: now}
}

// spend takes n, and reports whether there was as much.
func (b *budget) spend(now int64, n int) bool {
	if b.left < n {
		b.refill(now)
	}
	b.left -= n
	return b.left >= 0
}

func (b *budget) refill(now int64) {
	const second = 1_000_000_000
	elapsed := min(now-b.at, 3600*second)
	if add := int(elapsed * int64(b.perSecond) / second); add > 0 {
		b.at = now
		b.refund(add)
	}
}

func (b *budget) refund(n int) { b.left = min(b.full, b.left+n) }

// What frames cost that may be sent for nothing. The work they make us do is
// about in these proportions; connections that behave stay far below.
const (
	costControl  = 4   // PING, PRIORITY, WINDOW_UPDATE, RST_STREAM, unknown types
	costSettings = 64  // SETTINGS, which touches every stream
	costEmpty    = 32  // DATA or CONTINUATION with nothing in it
	costExcess   = 256 // a piece of a header block that is too large
	costError    = 64  // a fault that only breaks its stream

	creditFrame = 8 // a frame with content in either direction

	nuisanceFull      = 32 << 10
	nuisancePerSecond = 4 << 10
	resetsPerSecond   = 32
)
