package http2

import "time"

// never is a deadline that does not come.
const never = int64(1<<63 - 1)

// longest is how long the reading goroutine sleeps at most.
const longest = int64(time.Hour)

// quiet is how long a connection without streams keeps what it may need again.
const quiet = int64(5 * time.Second)

// shutdownTrip is how long a peer may take to learn of a first GOAWAY.
const shutdownTrip = int64(time.Second)

// deadline is when the reading goroutine has something to do though nothing
// comes. mu is held.
func (c *conn) deadline() int64 {
	d, o := never, &c.o
	if c.settingsOwed > 0 {
		d = min(d, c.settingsSent+int64(o.SettingsTimeout))
	}
	if since := c.incompleteSince(); since != 0 {
		d = min(d, since+int64(o.HeaderTimeout))
	}
	if c.draining != 0 && !c.goAwaySent {
		d = min(d, c.draining+shutdownTrip)
	}
	if c.idle() {
		if o.IdleTimeout > 0 {
			d = min(d, c.idleSince+int64(o.IdleTimeout))
		}
		if c.lent > 0 {
			d = min(d, c.now+quiet)
		} else if len(c.workers)+len(c.spare) > 0 {
			d = min(d, c.idleSince+quiet)
		}
	} else {
		d = min(d, c.now+quiet) // to look whether it is idle by then
	}
	if c.pingSent != 0 {
		d = min(d, c.pingSent+int64(o.PingTimeout))
	} else if o.PingAfter > 0 {
		due := c.lastRead + int64(o.PingAfter)
		if due <= c.now {
			due = c.now + int64(o.PingAfter) // no stream is open, but one may be before
		}
		d = min(d, due)
	}
	return min(d, c.now+longest)
}

// incompleteSince is since when a preface or head is awaited, or 0.
func (c *conn) incompleteSince() int64 {
	switch {
	case !c.greeted:
		return c.settingsSent
	case c.block.open:
		return c.block.since
	}
	return c.waitSince
}

func (c *conn) idle() bool { return c.streams.len()+c.opened+c.running == 0 }

// onTime does what is due.
func (c *conn) onTime() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, o := c.now, &c.o
	due := func(since int64, after time.Duration) bool { return after > 0 && now >= since+int64(after) }
	if since := c.incompleteSince(); since != 0 && due(since, o.HeaderTimeout) {
		return connError(EnhanceYourCalm, "a head took too long")
	}
	if c.settingsOwed > 0 && due(c.settingsSent, o.SettingsTimeout) {
		return connError(SettingsTimeout, "settings were not acknowledged")
	}
	if c.draining != 0 && !c.goAwaySent && now >= c.draining+shutdownTrip {
		c.finalGoAway()
	}
	if c.idle() {
		if now >= c.idleSince+quiet {
			c.slim()
		}
		if due(c.idleSince, o.IdleTimeout) {
			c.end(nil)
		}
	}
	return c.keepAlive(now)
}

// keepAlive asks a silent peer whether it is there. mu is held.
func (c *conn) keepAlive(now int64) error {
	switch o := &c.o; {
	case c.pingSent != 0:
		if now >= c.pingSent+int64(o.PingTimeout) {
			return connError(NoError, "the peer does not answer")
		}
	case o.PingAfter > 0 && !c.idle() && now >= c.lastRead+int64(o.PingAfter):
		c.pingSent = now
		c.reserve(32)
		c.out = appendPing(c.out, 0, pingAlive)
	}
	return nil
}

// slim lets go of what a connection without streams does not need. mu is held.
func (c *conn) slim() {
	for _, s := range c.spare {
		s.discard()
	}
	c.spare = nil
	c.streams = streams{}
	c.dropHeads()
	c.dismissLocked()
}
