package snapshot

import (
	"slices"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

	"github.com/headgate/headgate/dataplane/route"
)

// named is a resource with a name.
type named interface{ GetName() string }

// names are those of the resources of a kind.
type names struct {
	list []string
	at   map[string]int // the first with each name
}

// index indexes the resources by name and refuses doubles.
func (c *compiler) index() {
	c.out.made.names = map[string]names{}
	c.listeners = index(c, "listeners", c.in.GetListeners())
	c.certificates = index(c, "certificates", c.in.GetCertificates())
	c.bundles = index(c, "caBundles", c.in.GetCaBundles())
	c.clusters = index(c, "clusters", c.in.GetClusters())
	index(c, "routes", c.in.GetRoutes())
	c.addresses()
}

func index[R named](c *compiler, kind string, list []R) names {
	out := names{list: make([]string, len(list))}
	for i, r := range list {
		out.list[i] = r.GetName()
	}
	if before := c.prev.names[kind]; before.at != nil && slices.Equal(before.list, out.list) {
		out = before
	} else {
		out.at = c.unique(kind, out.list)
	}
	c.out.made.names[kind] = out
	return out
}

func (c *compiler) unique(kind string, list []string) map[string]int {
	out := make(map[string]int, len(list))
	for i, name := range list {
		first, taken := out[name]
		switch {
		case !taken:
			out[name] = i
		case name != "":
			f := faults{kind: kind, index: i}
			f.add(RuleDuplicate, "name", "%s is the name of %s too", quote(name), item(kind, first))
			c.found = append(c.found, f.list...)
		}
	}
	return out
}

// addresses refuses two listeners that cannot both be bound.
func (c *compiler) addresses() {
	for i, l := range c.out.Listeners {
		if l.Address == "" {
			continue
		}
		for j, other := range c.out.Listeners[:min(i, maxCompared)] {
			if other.Address != "" && overlap(l, other) {
				f := faults{kind: "listeners", index: i}
				f.add(RuleTaken, "address", "%s cannot be bound: listeners[%d] (%s) has %s", quote(c.in.GetListeners()[i].GetAddress()), j, other.Name, quote(c.in.GetListeners()[j].GetAddress()))
				c.found = append(c.found, f.list...)
				break
			}
		}
	}
}

// link resolves the names by which resources refer to one another.
func (c *compiler) link() {
	c.linkTLS()
	used := make([]bool, len(c.out.Clusters))
	for i, in := range c.in.GetRoutes() {
		f := faults{kind: "routes", index: i}
		c.linkListeners(in, &f)
		c.out.Routes[i] = c.linkRoute(in, i, used, &f)
		c.found = append(c.found, f.list...)
	}
	for i, cluster := range c.out.Clusters {
		if !used[i] {
			f := faults{kind: "clusters", index: i}
			f.warn(RuleUnused, "", "no route forwards to cluster %s", quote(cluster.Name))
			c.found = append(c.found, f.list...)
		}
	}
}

func (c *compiler) linkListeners(in *configv1.Route, f *faults) {
	for i, name := range in.GetListeners() {
		if _, ok := c.listeners.at[name]; !ok {
			f.add(RuleReference, item("listeners", i), "no listener is named %s: %s", quote(name), suggest(name, "listeners", c.listeners.at))
		}
	}
}

// linkRoute gives a route its index and the clusters that it names. A route
// that was linked under the snapshot before stays as it is if both are the same,
// and is copied otherwise.
func (c *compiler) linkRoute(in *configv1.Route, i int, used []bool, f *faults) *Route {
	out := c.out.Routes[i]
	if out.Forward == nil {
		if out.Index == i {
			return out
		}
		return relink(out, i, links{})
	}
	if out.Index == i && c.linked(out.Forward, used) {
		return out
	}
	links := links{backends: make([]*Cluster, len(out.Forward.Backends))}
	for j, b := range in.GetForward().GetBackends() {
		links.backends[j] = c.cluster(b.GetCluster(), item("forward.backends", j), used, f)
	}
	if out.Forward.Mirror != nil {
		links.mirror = c.cluster(in.GetForward().GetMirror().GetCluster(), "forward.mirror", used, f)
	}
	return relink(out, i, links)
}

// links are the clusters of a route.
type links struct {
	backends []*Cluster
	mirror   *Cluster
}

// cluster is the one of a name, which is marked as used; nil if there is none.
func (c *compiler) cluster(name, path string, used []bool, f *faults) *Cluster {
	k, ok := c.clusters.at[name]
	if !ok {
		f.add(RuleReference, path+".cluster", "no cluster is named %s: %s", quote(name), suggest(name, "clusters", c.clusters.at))
		return nil
	}
	used[k] = true
	return c.out.Clusters[k]
}

// linked reports whether all clusters of a route are known, and are what their
// names stand for in this snapshot still, and marks them as used.
func (c *compiler) linked(forward *Forward, used []bool) bool {
	for _, b := range forward.Backends {
		if !c.stands(b.Cluster, used) {
			return false
		}
	}
	return forward.Mirror == nil || c.stands(forward.Mirror.Cluster, used)
}

func (c *compiler) stands(cluster *Cluster, used []bool) bool {
	if cluster == nil {
		return false
	}
	k, ok := c.clusters.at[cluster.Name]
	if !ok || c.out.Clusters[k] != cluster {
		return false
	}
	used[k] = true
	return true
}

// relink copies what depends on the place of a route and on its clusters.
func relink(r *Route, index int, to links) *Route {
	out := *r
	out.Index = index
	if r.Forward != nil {
		forward := *r.Forward
		forward.Backends = slices.Clone(forward.Backends)
		for i := range forward.Backends {
			forward.Backends[i].Cluster = to.backends[i]
		}
		if forward.Mirror != nil {
			forward.Mirror = &Mirror{Cluster: to.mirror, Percent: forward.Mirror.Percent}
		}
		out.Forward = &forward
	}
	return &out
}

// table is a compiled table and the routes that it was made of.
type table struct {
	routes []int // nil: all
	table  *route.Table
	shadow []route.Shadow
	errors []route.Error // if there are any, the rest is empty
}

// makeTables makes the tables of all listeners. Listeners that take the same
// routes share one.
func (c *compiler) makeTables() {
	c.tableAt = make([]int, len(c.out.Listeners))
	for i := range c.tableAt {
		c.tableAt[i] = c.tableOf(c.routesOf(i))
	}
	if len(c.tableAt) == 0 {
		c.tableOf(nil)
	}
}

// tables gives each listener its table, and records what was found out in making
// them.
func (c *compiler) tables() {
	for _, t := range c.out.made.tables {
		c.refused(t.errors)
	}
	for i, l := range c.out.Listeners {
		t := &c.out.made.tables[c.tableAt[i]]
		l.Table = t.table
		if t.routes != nil && len(t.routes) == 0 || len(c.out.Routes) == 0 {
			f := faults{kind: "listeners", index: i}
			f.warn(RuleUnused, "", "no route takes requests of listener %s: every answer is 404", quote(l.Name))
			c.found = append(c.found, f.list...)
		}
	}
	c.unreachable()
}

// routesOf lists the routes that a listener takes; nil is all of them.
func (c *compiler) routesOf(listener int) []int {
	name := c.in.GetListeners()[listener].GetName()
	out := []int{}
	for i, r := range c.in.GetRoutes() {
		if len(r.GetListeners()) == 0 || slices.Contains(r.GetListeners(), name) {
			out = append(out, i)
		}
	}
	if len(out) == len(c.in.GetRoutes()) {
		return nil
	}
	return out
}

// tableOf finds or makes the table of some routes, and returns its index: one of
// this compilation, or one of the snapshot before if no condition of a route has
// changed.
func (c *compiler) tableOf(routes []int) int {
	same := func(t table) bool { return (t.routes == nil) == (routes == nil) && slices.Equal(t.routes, routes) }
	if i := slices.IndexFunc(c.out.made.tables, same); i >= 0 {
		return i
	}
	var made table
	if i := slices.IndexFunc(c.prev.tables, same); i >= 0 && c.same {
		made = c.prev.tables[i]
	} else {
		made = c.newTable(routes)
	}
	c.out.made.tables = append(c.out.made.tables, made)
	return len(c.out.made.tables) - 1
}

func (c *compiler) newTable(routes []int) table {
	var take func(int) bool
	if routes != nil {
		taken := make([]bool, len(c.out.made.conditions))
		for _, i := range routes {
			taken[i] = true
		}
		take = func(i int) bool { return taken[i] }
	}
	t, errs := route.New(c.out.made.conditions, take)
	if len(errs) > 0 || t == nil {
		return table{routes: routes, errors: errs}
	}
	return table{routes: routes, table: t, shadow: t.Shadowed()}
}

// refused records what the table refuses, unless the field was refused before.
func (c *compiler) refused(errs []route.Error) {
	if len(errs) == 0 {
		return
	}
	known := map[string]bool{}
	for _, v := range c.found {
		known[v.Path] = known[v.Path] || !v.Warning
	}
	for _, e := range errs {
		f := faults{kind: "routes", index: e.Route}
		f.add(RuleMatch, e.Field, "%v", e.Err)
		if v := f.list[0]; !known[v.Path] {
			known[v.Path] = true
			c.found = append(c.found, v)
		}
	}
}

// unreachable warns of matches that win in no table that has their route.
func (c *compiler) unreachable() {
	type match struct{ route, match int }
	losses, by := map[match]int{}, map[match]route.Shadow{}
	tables := make([]int, len(c.out.Routes))
	for _, t := range c.out.made.tables {
		for i := range c.out.Routes {
			if t.routes == nil {
				tables[i]++
			}
		}
		for _, i := range t.routes {
			tables[i]++
		}
		for _, s := range t.shadow {
			losses[match{s.Route, s.Match}]++
			by[match{s.Route, s.Match}] = s
		}
	}
	for m, n := range losses {
		if n == tables[m.route] {
			c.found = append(c.found, c.shadowed(by[m]))
		}
	}
}

func (c *compiler) shadowed(s route.Shadow) Violation {
	f := faults{kind: "routes", index: s.Route}
	path := ""
	if len(c.in.GetRoutes()[s.Route].GetMatches()) > 0 {
		path = item("matches", s.Match)
	}
	f.warn(RuleUnreachable, path, "is never reached: route %s (routes[%d]) takes every request that it would", quote(c.out.Routes[s.By].Name), s.By)
	return f.list[0]
}
