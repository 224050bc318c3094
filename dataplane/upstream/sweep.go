package upstream

import (
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// sweepEvery is how often idle connections are looked at. An idle connection
// outlives its keep-alive timeout by no more, and is not handed out meanwhile.
const sweepEvery = time.Second

// sweep closes idle connections that are too old or that the peer has closed,
// and looks how endpoints fare, until the registry stops.
func (r *Registry) sweep() {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-r.stopped.Done():
			return
		case <-ticker.C:
			r.sweepOnce(socket.Now())
		}
	}
}

func (r *Registry) sweepOnce(now int64) {
	for _, c := range r.current().clusters {
		for _, e := range c.look(now) {
			e.pool.Sweep(now)
		}
		r.openEarly(c, nil)
	}
}

// look brings up to date how the endpoints fare, and returns them. The list must
// not be changed.
func (c *Cluster) look(now int64) []*Endpoint {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	for _, e := range c.endpoints {
		e.recent.look(now, e.counts())
	}
	return c.endpoints
}

// current is the committed generation.
func (r *Registry) current() *Generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.committed
}
