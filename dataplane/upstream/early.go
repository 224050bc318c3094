package upstream

import (
	"context"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
)

// Connections are opened ahead of the requests that will want them, if a cluster
// asks for that: when an endpoint is new, before its snapshot is active, and
// afterwards with each sweep. They take no place that a request waits for.

// maxEarly bounds how many of them are opened at one time, of all clusters.
const maxEarly = 64

// earlyPatience is how long a snapshot that is to be active waits for them.
const earlyPatience = time.Second

// earlyPause is how many sweeps an endpoint is left alone that did not take one.
const earlyPause = 10

// openEarly opens what is lacking at the endpoints of a view.
func (r *Registry) openEarly(c *Cluster, warmth *latch) {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	c.openEarly(warmth)
}

// openEarly begins to open what is lacking at the endpoints in service. What finds
// no room now is left to the next sweep. warmth, if there is one, waits for the
// others. The caller holds group.mu.
func (c *Cluster) openEarly(warmth *latch) {
	if c.config.EarlyConnections == 0 || c.config.KeepAliveTimeout <= 0 {
		return
	}
	for i, e := range c.endpoints {
		switch {
		case e.opening || !c.takesPart(i) || !e.inService() || e.lack(c.config) == 0:
		case e.pause > 0:
			e.pause--
		case !c.group.fillSoon(e, c.config, warmth):
			return
		}
	}
}

// fillSoon begins to open what an endpoint lacks, if there is room for that. The
// caller holds mu.
func (g *group) fillSoon(e *Endpoint, config *snapshot.Cluster, warmth *latch) bool {
	r := g.registry
	select {
	case r.early <- struct{}{}:
	default:
		return false
	}
	if warmth != nil {
		warmth.add()
	}
	e.opening = true
	r.running.Go(func() {
		g.openedEarly(e, r.fill(e, config))
		<-r.early
		if warmth != nil {
			warmth.done()
		}
	})
	return true
}

func (g *group) openedEarly(e *Endpoint, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.opening = false
	if err != nil {
		e.pause = earlyPause
	}
}

// lack is how many connections are to be opened. Over HTTP/2 one does for many
// requests.
func (e *Endpoint) lack(config *snapshot.Cluster) int {
	idle, open := e.pool.Counts()
	if config.HTTP2 || e.agreed.Load() == agreedHTTP2 {
		return max(0, 1-open)
	}
	return max(0, config.EarlyConnections-idle)
}

// fill opens the connections that an endpoint lacks, one after the other. It ends
// with the first that cannot be opened, and when there may be no more.
func (r *Registry) fill(e *Endpoint, config *snapshot.Cluster) error {
	for range e.lack(config) {
		if !e.pool.Reserve() {
			return nil
		}
		if err := r.openAhead(e, config); err != nil {
			e.pool.Cancel()
			return err
		}
	}
	return nil
}

// openAhead opens a connection of a place that was reserved.
func (r *Registry) openAhead(e *Endpoint, config *snapshot.Cluster) error {
	ctx, cancel := context.WithDeadline(r.stopped, socket.At(e.limit(0)))
	defer cancel()
	opened, version, err := e.open(ctx, nil)
	if err != nil {
		return err
	}
	shared := spokenOver(opened) == protocolHTTP2 || config.HTTP2 && e.secure == nil
	if config.HTTP2 && !shared {
		_ = opened.Close()
		return errNoHTTP2
	}
	c := e.pool.Add(socket.New(opened))
	c.Version = version
	if shared {
		e.adopt(0, c)
		return nil
	}
	if e.decides() {
		e.agreed.CompareAndSwap(undecided, agreedHTTP1)
	}
	c.Spare(0)
	return nil
}
