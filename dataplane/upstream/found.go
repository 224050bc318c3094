package upstream

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
)

// How long a snapshot that is to be active waits for the first look-up of a name:
// less if addresses are known from another life.
const (
	lookupPatience = 5 * time.Second
	secondPatience = time.Second
)

// Resolution is what DNS says of the name of a cluster.
type Resolution struct {
	Cluster   string
	Name      string    // "": the cluster's endpoints are listed, and DNS is not asked any more
	Addresses []string  // of the endpoints, host:port; the last good ones
	Trouble   string    // why the last look-up was not good; "": it was
	Cause     string    // what has changed, in a few words; "" with First
	Next      time.Time // when it is looked up next; zero if the first look-up is not over
	At        time.Time
	First     bool // a snapshot with this cluster was committed just now; else something has changed
}

// follow begins to watch the name of a view and returns the endpoints that are
// known already. Unless they are of a look-up, warmth waits for the first. The
// caller holds mu.
func (g *group) follow(c *Cluster, warmth *latch) []snapshot.Endpoint {
	c.watch = g.registry.resolver.Watch(c.config.DNS.Name, c.config.DNS.Refresh, func() { g.found(c) })
	state := c.watch.Latest()
	if !state.Asked {
		warmth.add()
		c.warmth = warmth
	}
	return c.endpointsAt(state.Addresses)
}

// unfollow ends that. The caller holds mu.
func (c *Cluster) unfollow() {
	if c.watch != nil {
		c.watch.Stop()
	}
	c.lookedUp()
}

// lookedUp tells those who wait for the first look-up. The caller holds mu.
func (c *Cluster) lookedUp() {
	if c.warmth != nil {
		c.warmth.done()
		c.warmth = nil
	}
}

// patience is how long the first look-up of a new view's name is waited for.
func (c *Cluster) patience() time.Duration {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	switch {
	case c.warmth == nil && !c.trying:
		return 0
	case len(c.endpoints) > 0:
		return secondPatience
	}
	return lookupPatience
}

// endpointsAt are the endpoints at the addresses of the name.
func (c *Cluster) endpointsAt(addresses []netip.Addr) []snapshot.Endpoint {
	list := make([]snapshot.Endpoint, len(addresses))
	for i, a := range addresses {
		list[i] = snapshot.Endpoint{Address: netip.AddrPortFrom(a, c.config.DNS.Port).String(), Weight: 1}
	}
	return list
}

// found is called after each look-up of a view's name. Endpoints that stay keep
// all they have; those that go finish what they have.
func (g *group) found(c *Cluster) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.views, c) {
		return
	}
	list := c.endpointsAt(c.watch.Latest().Addresses)
	if !slices.Equal(list, c.listed) {
		g.relist(c, list)
	}
	g.tryFamilies(c, c.warmth)
	c.openEarly(c.warmth)
	c.lookedUp()
	if c == g.current {
		g.tellResolution(c, false)
	}
}

// relist replaces the endpoints of a view. The caller holds mu.
func (g *group) relist(c *Cluster, list []snapshot.Endpoint) {
	before := c.endpoints
	made := g.enlist(c, list, c.warmth)
	if c.config.HealthCheck != nil {
		g.registry.schedule.startAll(made, socket.Now())
	}
	if c == g.current {
		g.adoptEndpoints(c, len(before) == 0)
	}
	c.build()
	c.unseat(before)
	g.dismiss(before)
}

// unseat has those of some endpoints that a view has no more forget its trees of
// loads. The caller holds mu.
func (c *Cluster) unseat(before []*Endpoint) {
	for _, e := range before {
		seats := e.seats.Load()
		if seats == nil || slices.Contains(c.endpoints, e) {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(*seats), func(s seat) bool { return s.owner == c })
		e.seats.Store(&left)
	}
}

// resolution is what is known of the name; nil if there is none. The caller holds
// mu.
func (c *Cluster) resolution() *Resolution {
	if c.watch == nil {
		return nil
	}
	state := c.watch.Latest()
	r := &Resolution{Cluster: c.config.Name, Name: c.config.DNS.Name, Trouble: state.Trouble, At: socket.At(socket.Now())}
	for i := range c.listed {
		r.Addresses = append(r.Addresses, c.listed[i].Address)
	}
	if state.Asked {
		r.Next = socket.At(state.Next)
	} else if len(c.listed) == 0 {
		r.Trouble = "there is no answer yet"
	}
	return r
}

// tellResolution tells of what has changed since it was told last, if anything;
// first: of all there is. The caller holds mu.
func (g *group) tellResolution(c *Cluster, first bool) {
	before, now := g.told, Resolution{}
	if r := c.resolution(); r != nil {
		now = *r
	}
	if now.Name == "" && before.Name == "" {
		return
	}
	if now.First = first; !first {
		now.Cause = now.since(&before)
		if now.Cause == "" {
			return
		}
	}
	now.Cluster, now.At = g.name, socket.At(socket.Now())
	g.told = now
	g.registry.options.Resolved(now)
}

// since is what has changed, in a few words; "" if nothing has.
func (r *Resolution) since(before *Resolution) string {
	var parts []string
	switch {
	case r.Trouble != "" && before.Trouble == "":
		parts = append(parts, r.Trouble)
	case r.Trouble == "" && before.Trouble != "":
		parts = append(parts, "it works again")
	}
	if list := without(r.Addresses, before.Addresses); len(list) > 0 {
		parts = append(parts, "new: "+short(list))
	}
	if list := without(before.Addresses, r.Addresses); len(list) > 0 {
		parts = append(parts, "gone: "+short(list))
	}
	return strings.Join(parts, "; ")
}

// without is what is in one list and not in the other.
func without(list, other []string) []string {
	known := make(map[string]bool, len(other))
	for _, s := range other {
		known[s] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return known[s] })
}

// short is a list of which a few are named.
func short(list []string) string {
	const named = 8
	if len(list) > named {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:named], ", "), len(list)-named)
	}
	return strings.Join(list, ", ")
}
