package snapshot

import (
	"encoding/hex"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

	"github.com/headgate/headgate/dataplane/route"
)

// Compile finds every fault of a configuration and, if none of them is more
// than a warning, makes the form that the data plane runs. Violations are in
// the order of the fields in the language and of the resources in their lists;
// the snapshot is nil if one of them is an error. The configuration belongs to
// the snapshot from then on and must not be written any more.
func Compile(in *configv1.Snapshot) (*Snapshot, []Violation) {
	return CompileFrom(nil, in)
}

// CompileFrom is Compile for a configuration that probably differs little from
// that of the snapshot prev, which may be nil: resources of equal content are
// not checked and compiled again. The result is the same as Compile's.
func CompileFrom(prev *Snapshot, in *configv1.Snapshot) (*Snapshot, []Violation) {
	return compile(prev, in, false)
}

// CompilePatched is CompileFrom for a configuration that was made of the
// messages of prev.Source and a few others. Those that are the same messages are
// known by their address, and not even read: none of them may have been written
// since.
func CompilePatched(prev *Snapshot, in *configv1.Snapshot) (*Snapshot, []Violation) {
	return compile(prev, in, true)
}

func compile(prev *Snapshot, in *configv1.Snapshot, patched bool) (*Snapshot, []Violation) {
	if in == nil {
		return nil, []Violation{{Message: "there is no configuration", Rule: RuleEmpty}}
	}
	c := &compiler{in: in, prev: &made{}, out: &Snapshot{Version: in.GetVersion(), Source: in}}
	var shared *configv1.Snapshot
	if prev != nil {
		c.prev = &prev.made
	}
	if prev != nil && patched {
		shared = prev.Source
	}
	c.out.made.contents = encode(in, shared, c.prev.contents)
	c.resources()
	// To make a table takes longest, and it asks for routes alone.
	parallel(2, func(i int) {
		if i == 0 {
			c.makeTables()
			return
		}
		c.compileClusters()
		c.index()
		c.link()
		c.out.Digest = c.out.made.contents.digest()
	})
	c.tables()
	return c.finish()
}

// made is what one compilation leaves to the next. It is never written after.
type made struct {
	contents contents

	certificates []*Certificate
	bundles      []*Bundle

	clusters   []*Cluster
	routes     []*Route
	conditions []route.Route
	tables     []table
	names      map[string]names // by kind
}

// compiler is the state of one compilation.
type compiler struct {
	in    *configv1.Snapshot
	prev  *made
	out   *Snapshot
	found []Violation
	same  bool // the conditions of all routes are those of prev, in order

	tableAt []int // by listener, the index of its table in out.made.tables

	listeners    names
	certificates names
	bundles      names
	clusters     names
}

// Field numbers of the kinds that can be many.
var (
	certificateField = fieldNumber("certificates")
	bundleField      = fieldNumber("ca_bundles")
	clusterField     = fieldNumber("clusters")
	routeField       = fieldNumber("routes")
)

func fieldNumber(name protoreflect.Name) protoreflect.FieldNumber {
	return (*configv1.Snapshot)(nil).ProtoReflect().Descriptor().Fields().ByName(name).Number()
}

// resources checks and compiles each resource by itself, but for the clusters.
func (c *compiler) resources() {
	c.top()
	for i, l := range c.in.GetListeners() {
		f := &faults{kind: "listeners", index: i}
		c.check(l, "listeners", f)
		c.out.Listeners = append(c.out.Listeners, compileListener(l, f))
		c.found = append(c.found, f.list...)
	}
	c.compileCertificates()
	c.compileBundles()
	c.compileRoutes()
	f := &faults{kind: "telemetry", index: -1}
	if c.in.GetTelemetry() != nil {
		c.check(c.in.GetTelemetry(), "telemetry", f)
	}
	c.found = append(c.found, f.list...)
	c.out.Telemetry = compileTelemetry(c.in.GetTelemetry())
}

// top checks the fields of the snapshot itself, without what the resources
// hold: whole kinds that are not supported, and the version.
func (c *compiler) top() {
	f := &faults{index: -1}
	m := c.in.ProtoReflect()
	walk := languageWalk{faults: f}
	bare := &configv1.Snapshot{Version: c.in.GetVersion()}
	bare.ProtoReflect().SetUnknown(m.GetUnknown())
	walk.message(bare.ProtoReflect(), language)
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if language.children[fd.Number()] == nil {
			walk.field(fd, v, nil)
		}
		return true
	})
	checkRules(bare, f)
	c.found = append(c.found, f.list...)
}

// check holds one resource against the rules of the language.
func (c *compiler) check(m proto.Message, kind protoreflect.Name, f *faults) {
	r := m.ProtoReflect()
	if !r.IsValid() {
		f.add(RuleEmpty, "", "is empty")
		return
	}
	walk := languageWalk{faults: f}
	walk.message(r, language.children[fieldNumber(kind)])
	checkRules(m, f)
}

func (c *compiler) compileClusters() {
	now := c.out.made.contents[clusterField].sums
	before := finderOf(c.prev.contents[clusterField].sums)
	c.out.Clusters = make([]*Cluster, len(now))
	c.out.made.clusters = c.out.Clusters
	var fresh []int
	for i := range now {
		old := before.find(now[i], i)
		switch {
		case old < 0:
			fresh = append(fresh, i)
		case c.prev.clusters[old].Index == i:
			c.out.Clusters[i] = c.prev.clusters[old]
		default:
			moved := *c.prev.clusters[old]
			moved.Index = i
			c.out.Clusters[i] = &moved
		}
	}
	c.compileEach("clusters", fresh, func(i int, f *faults) {
		in := c.in.GetClusters()[i]
		c.check(in, "clusters", f)
		out := compileCluster(in, f)
		out.Index, out.Identity = i, hex.EncodeToString(now[i][:])
		c.out.Clusters[i] = out
	})
}

func (c *compiler) compileRoutes() {
	now := c.out.made.contents[routeField].sums
	before := finderOf(c.prev.contents[routeField].sums)
	c.out.Routes = make([]*Route, len(now))
	c.out.made.routes = c.out.Routes
	conditions := make([]route.Route, len(now))
	c.out.made.conditions = conditions
	c.same = len(now) == len(c.prev.routes)
	var fresh []int
	for i := range now {
		old := before.find(now[i], i)
		if old < 0 {
			fresh = append(fresh, i)
			continue
		}
		c.out.Routes[i], conditions[i] = c.prev.routes[old], c.prev.conditions[old]
		c.same = c.same && old == i
	}
	c.compileEach("routes", fresh, func(i int, f *faults) {
		in := c.in.GetRoutes()[i]
		c.check(in, "routes", f)
		c.out.Routes[i], conditions[i] = compileRoute(in, f), compileConditions(in, f)
	})
	for _, i := range fresh {
		c.same = c.same && sameConditions(&c.prev.conditions[i], &conditions[i])
	}
}

// compileEach compiles resources of a kind, given by index, on all processors:
// to check them against the rules takes most of the time of a first compilation.
// one may write to what belongs to its resource alone.
func (c *compiler) compileEach(kind string, list []int, one func(i int, f *faults)) {
	found := make([]faults, len(list))
	parallel(len(list), func(n int) {
		found[n] = faults{kind: kind, index: list[n]}
		one(list[n], &found[n])
	})
	for n := range found {
		c.found = append(c.found, found[n].list...)
	}
}

// finish gives the result away if nothing is wrong with it.
func (c *compiler) finish() (*Snapshot, []Violation) {
	if !refuses(c.found) {
		c.unencodable()
	}
	slices.SortStableFunc(c.found, inOrder)
	if refuses(c.found) {
		return nil, c.found
	}
	if c.out.Version == "" {
		c.out.Version = c.out.Digest[:12]
	}
	return c.out, c.found
}

func refuses(list []Violation) bool {
	return slices.ContainsFunc(list, func(v Violation) bool { return !v.Warning })
}
