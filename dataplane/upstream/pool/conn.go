// Package pool keeps the connections to endpoints: which are idle, how many
// there may be, and who waits for one. It does not connect, knows no protocol,
// and knows nothing of clusters' configuration.
//
// A Pool belongs to an endpoint and a Group to a cluster. Idle connections are
// kept in shards, one for each core, so that cores meet only when a shard has
// none left. Nobody counts a connection while it goes in and out of a shard;
// counting is done when it is opened and closed.
package pool

import (
	"sync/atomic"

	"github.com/headgate/headgate/dataplane/socket"
)

// Conn is a connection to an endpoint. Whoever got it from a Pool uses it alone
// and ends with Release or Discard; either may be called again without effect.
type Conn struct {
	*socket.Conn
	Reused  bool   // it has carried a request before
	Version uint64 // of what its peer was verified against, for its users; 0: nothing
	Doubt   bool   // what it carried last may be followed by bytes that belong to nobody; for its users

	pool  *Pool
	use   atomic.Uint32
	since int64 // when it went idle; guarded by the shard it is in
}

// The uses of a connection.
const (
	inUse uint32 = iota
	isIdle
	isClosed
)

// Release gives the connection back for the next request. The caller has read
// all that belongs to its own: a connection with bytes left over is closed.
// shard is the caller's; any number will do.
func (c *Conn) Release(shard int) { c.ReleaseAt(shard, socket.Now()) }

// ReleaseAt is Release for those who know the time: where reading the clock is
// slow, that is most of the cost.
func (c *Conn) ReleaseAt(shard int, now int64) {
	c.Conn.Release()
	c.Unride()
	if !c.Conn.Spent() {
		c.Discard()
		return
	}
	if !c.use.CompareAndSwap(inUse, isIdle) {
		return
	}
	c.Reused = true
	c.pool.put(c, shard, now)
}

// Spare gives back a connection that has carried nothing.
func (c *Conn) Spare(shard int) {
	if c.use.CompareAndSwap(inUse, isIdle) {
		c.pool.put(c, shard, socket.Now())
	}
}

// IdleSince is when the connection was last made idle, a time of socket.Now; 0:
// never. It is asked by who uses the connection.
func (c *Conn) IdleSince() int64 { return c.since }

// Discard closes the connection and forgets it.
func (c *Conn) Discard() {
	if c.use.CompareAndSwap(inUse, isClosed) {
		c.close()
		c.pool.forget()
	}
}

// close ends a connection whose use has been set to isClosed.
func (c *Conn) close() {
	_ = c.Conn.Close() // there is nobody to tell
	c.Conn.Discard()
}
