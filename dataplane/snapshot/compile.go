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
	c.index()
	c.link()
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

// resources checks and compiles each resource by itself.
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
	c.compileClusters()
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
	for i, in := range c.in.GetClusters() {
		old := before.find(now[i], i)
		switch {
		case old >= 0 && c.prev.clusters[old].Index == i:
			c.out.Clusters[i] = c.prev.clusters[old]
			continue
		case old >= 0:
			moved := *c.prev.clusters[old]
			c.out.Clusters[i] = &moved
		default:
			f := &faults{kind: "clusters", index: i}
			c.check(in, "clusters", f)
			c.out.Clusters[i] = compileCluster(in, f)
			c.out.Clusters[i].Identity = hex.EncodeToString(now[i][:])
			c.found = append(c.found, f.list...)
		}
		c.out.Clusters[i].Index = i
	}
	c.out.made.clusters = c.out.Clusters
}

func (c *compiler) compileRoutes() {
	now := c.out.made.contents[routeField].sums
	before := finderOf(c.prev.contents[routeField].sums)
	c.same = len(now) == len(c.prev.routes)
	c.out.Routes = make([]*Route, len(now))
	c.out.made.conditions = make([]route.Route, len(now))
	for i, in := range c.in.GetRoutes() {
		if old := before.find(now[i], i); old >= 0 {
			c.out.Routes[i] = c.prev.routes[old]
			c.out.made.conditions[i] = c.prev.conditions[old]
			c.same = c.same && old == i
			continue
		}
		f := &faults{kind: "routes", index: i}
		c.check(in, "routes", f)
		c.out.Routes[i] = compileRoute(in, f)
		c.out.made.conditions[i] = compileConditions(in, f)
		c.same = c.same && sameConditions(&c.prev.conditions[i], &c.out.made.conditions[i])
		c.found = append(c.found, f.list...)
	}
	c.out.made.routes = c.out.Routes
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
	c.out.Digest = c.out.made.contents.digest()
	if c.out.Version == "" {
		c.out.Version = c.out.Digest[:12]
	}
	return c.out, c.found
}

func refuses(list []Violation) bool {
	return slices.ContainsFunc(list, func(v Violation) bool { return !v.Warning })
}
