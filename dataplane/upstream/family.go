package upstream

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/dataplane/upstream/health"
	"github.com/headgate/headgate/dataplane/upstream/resolve"
)

// A name may have addresses of both families on a host, or towards servers, where
// one of them leads nowhere. RFC 8305 ("Happy Eyeballs") has each connection race
// for that; here requests go to endpoints of all addresses, and a family is found
// out before they do: while no endpoint of one family was reached and one of the
// other was, those of the first get no requests. They are tried with each look-up.

// The bounds on the connections that find out whether a family is reached.
const (
	trialsEach  = 3 // of a family at one time
	trialLength = time.Second
)

// familyOf is that of the address of an endpoint that DNS has found.
func familyOf(e *Endpoint) int {
	if strings.HasPrefix(e.address, "[") {
		return resolve.IPv6
	}
	return resolve.IPv4
}

// reached reports whether there has been a connection to an endpoint. The caller
// holds group.mu.
func (e *Endpoint) reached() bool {
	return e.connected || e.active.State() == health.Healthy ||
		e.ended.Load() > e.failures.Load()+e.ignored.Load()
}

// isAside reports whether the endpoint at a place is of a family that is not
// reached. The caller holds group.mu.
func (c *Cluster) isAside(i int) bool {
	return c.watch != nil && c.aside[familyOf(c.endpoints[i])]
}

// judgeFamilies says which families are put aside, and whether that is news. The
// caller holds group.mu.
func (c *Cluster) judgeFamilies() (changed bool) {
	if c.watch == nil {
		return false
	}
	before := c.aside
	reached, _ := c.families()
	c.aside = [2]bool{!reached[0] && reached[1], reached[0] && !reached[1]}
	return c.aside != before
}

// families says which have been reached, and which there are. The caller holds
// group.mu.
func (c *Cluster) families() (reached, present [2]bool) {
	for _, e := range c.endpoints {
		f := familyOf(e)
		present[f] = true
		reached[f] = reached[f] || e.reached()
	}
	return reached, present
}

// tryFamilies begins to find out whether the families that were not reached yet
// are now, if there are both. warmth, if there is one, waits for that. The caller
// holds mu.
func (g *group) tryFamilies(c *Cluster, warmth *latch) {
	reached, present := c.families()
	if c.trying || !present[0] || !present[1] || reached[0] && reached[1] {
		return
	}
	var list []*Endpoint
	var chosen [2]int
	for _, e := range c.endpoints {
		if f := familyOf(e); !reached[f] && chosen[f] < trialsEach {
			chosen[f]++
			list = append(list, e)
		}
	}
	c.trying = true
	if warmth != nil {
		warmth.add()
	}
	g.registry.running.Go(func() {
		g.familiesTried(c, list, g.registry.tryAll(list))
		if warmth != nil {
			warmth.done()
		}
	})
}

// tryAll connects to endpoints, at the same time, and returns what became of it.
func (r *Registry) tryAll(list []*Endpoint) []error {
	ctx, cancel := context.WithTimeout(r.stopped, trialLength)
	defer cancel()
	results := make([]error, len(list))
	var trials sync.WaitGroup
	for i, e := range list {
		trials.Go(func() {
			conn, err := r.options.Dial(ctx, e.network, e.target)
			if err == nil {
				_ = conn.Close()
			}
			results[i] = orTimeout(ctx, err)
		})
	}
	trials.Wait()
	return results
}

// familiesTried takes the results of trials.
func (g *group) familiesTried(c *Cluster, list []*Endpoint, results []error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.trying = false
	for i, e := range list {
		if results[i] == nil {
			e.connected = true
		} else if !e.reached() && g.registry.stopped.Err() == nil {
			e.cause = "not reached: " + reason(results[i], trialLength)
		}
	}
	if !c.judgeFamilies() {
		return
	}
	c.build()
	for f, name := range [2]string{resolve.IPv4: "IPv4", resolve.IPv6: "IPv6"} {
		if c.aside[f] {
			g.registry.options.Logger.Warn("no endpoint of an address family is reached: they get no requests", "cluster", g.name, "family", name)
		}
	}
}
