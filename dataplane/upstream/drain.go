package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// MaxDrained bounds how many endpoints may be drained by hand at one time.
const MaxDrained = 1000

// The errors of MayDrain.
var (
	// ErrNoEndpoint: no committed cluster of that name has such an endpoint.
	ErrNoEndpoint = errors.New("upstream: no such endpoint")
	// ErrLastEndpoint: the cluster would have no endpoint left.
	ErrLastEndpoint = errors.New("upstream: the last endpoint of its cluster")
	// ErrManyDrained: as many are drained as may be.
	ErrManyDrained = fmt.Errorf("upstream: %d endpoints are drained already", MaxDrained)
)

// Drain is an endpoint that is drained by hand. It belongs to names, not to a
// snapshot: it holds for whatever endpoint of that cluster has that address, now
// or later.
type Drain struct {
	Cluster  string
	Endpoint string // its address
	Writer   string // who asked
	Reason   string // may be empty
	Since    time.Time
}

// names is what a drain holds for.
type names struct{ cluster, endpoint string }

// drains are the endpoints that are drained by hand.
type drains struct {
	mu sync.Mutex // taken under any other lock
	// guarded by mu
	list map[names]*Drain // never changed, only replaced
}

func (d *drains) of(cluster, endpoint string) *Drain {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list[names{cluster, endpoint}]
}

func (d *drains) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.list)
}

func (d *drains) set(v *Drain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.list == nil {
		d.list = make(map[names]*Drain)
	}
	d.list[names{v.Cluster, v.Endpoint}] = v
}

// remove is what was removed, or nil.
func (d *drains) remove(cluster, endpoint string) *Drain {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := names{cluster, endpoint}
	old := d.list[key]
	delete(d.list, key)
	return old
}

// Drained lists what is drained by hand, by cluster and address.
func (r *Registry) Drained() []Drain {
	r.drains.mu.Lock()
	defer r.drains.mu.Unlock()
	list := make([]Drain, 0, len(r.drains.list))
	for _, d := range r.drains.list {
		list = append(list, *d)
	}
	slices.SortFunc(list, func(a, b Drain) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return list
}

// RestoreDrained drains what was drained before a restart, and tells nobody. It
// is called before the first Prepare.
func (r *Registry) RestoreDrained(list []Drain) {
	for i := range list {
		r.drains.set(&list[i])
	}
}

// MayDrain says why an endpoint is not to be drained by hand: ErrNoEndpoint,
// ErrLastEndpoint or ErrManyDrained. It is nil for one that is drained already.
func (r *Registry) MayDrain(cluster, endpoint string) error {
	c := r.current().byName[cluster]
	if c == nil {
		return ErrNoEndpoint
	}
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	found, others := false, 0
	for i, e := range c.endpoints {
		switch {
		case e.address == endpoint:
			found = true
		case c.takesPart(i):
			others++
		}
	}
	switch {
	case !found:
		return ErrNoEndpoint
	case r.drains.of(cluster, endpoint) != nil:
		return nil
	case others == 0:
		return ErrLastEndpoint
	case r.drains.count() >= MaxDrained:
		return ErrManyDrained
	}
	return nil
}

// Drain takes an endpoint out of traffic by hand, and reports whether it was in.
// What is in flight goes on; when Drain returns nothing new is chosen to go there.
func (r *Registry) Drain(d Drain) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drains.of(d.Cluster, d.Endpoint) != nil {
		return false
	}
	r.drains.set(&d)
	r.drained(d.Cluster, d.Endpoint, &d, Event{Kind: EndpointDrained, Cause: d.Reason, Writer: d.Writer})
	return true
}

// Undrain ends a drain, and reports whether there was one.
func (r *Registry) Undrain(cluster, endpoint, writer, reason string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drains.remove(cluster, endpoint) == nil {
		return false
	}
	r.drained(cluster, endpoint, nil, Event{Kind: EndpointUndrained, Cause: reason, Writer: writer})
	return true
}

// drained has the live endpoints follow what was set, and tells of it: once,
// though there may be two of one address while TLS changes. The caller holds mu.
func (r *Registry) drained(cluster, endpoint string, d *Drain, v Event) {
	if c := r.committed.byName[cluster]; c != nil && c.group.drain(endpoint, d, v) {
		return
	}
	v.Cluster, v.Endpoint, v.At = cluster, endpoint, time.Now()
	v.From, v.To = StateUnknown, StateDrained
	if d == nil {
		v.From, v.To = StateDrained, StateUnknown
	}
	r.options.Events(v)
}

// drain is Registry.drained within a group; false: it has no such endpoint.
func (g *group) drain(endpoint string, d *Drain, v Event) (found bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := socket.Now()
	for id, e := range g.endpoints {
		if id.address != endpoint {
			continue
		}
		e.drain = d
		if d == nil && takesRequests(e.state()) {
			g.startRamp(e, now)
		}
		if found {
			continue
		}
		found = true
		v.From, v.To = e.state(), StateDrained
		if d == nil {
			v.From, v.To = StateDrained, e.state()
		}
		g.tell(e, now, v)
	}
	if found {
		g.rebuild()
	}
	return found
}

// takesPart reports whether an endpoint is to get requests as far as its weight
// and what was done by hand go. The caller holds group.mu.
func (c *Cluster) takesPart(i int) bool {
	return c.weights[i] > 0 && c.endpoints[i].drain == nil && !c.isAside(i)
}
