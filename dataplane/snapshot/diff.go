package snapshot

import (
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// ResourceChange is a resource that two configurations do not have alike.
type ResourceChange struct {
	Kind     controlv1.ResourceKind
	Name     string        // the id of an API key; "" for telemetry
	Change   ChangeKind    //
	Moved    bool          // it has another place among those that both have
	Fields   []FieldChange // of a changed one
	OldIndex int           // -1: added
	NewIndex int           // -1: removed
}

// ChangeKind is how a resource differs.
type ChangeKind uint8

// The ways in which it can differ.
const (
	Added ChangeKind = iota + 1
	Removed
	Changed
)

// kinds of resources, by the field of a snapshot that holds them.
var kinds = map[protoreflect.Name]controlv1.ResourceKind{
	"listeners":    controlv1.ResourceKind_RESOURCE_KIND_LISTENER,
	"certificates": controlv1.ResourceKind_RESOURCE_KIND_CERTIFICATE,
	"ca_bundles":   controlv1.ResourceKind_RESOURCE_KIND_CA_BUNDLE,
	"clusters":     controlv1.ResourceKind_RESOURCE_KIND_CLUSTER,
	"rate_limits":  controlv1.ResourceKind_RESOURCE_KIND_RATE_LIMIT,
	"tiers":        controlv1.ResourceKind_RESOURCE_KIND_TIER,
	"api_keys":     controlv1.ResourceKind_RESOURCE_KIND_API_KEY,
	"routes":       controlv1.ResourceKind_RESOURCE_KIND_ROUTE,
	"telemetry":    controlv1.ResourceKind_RESOURCE_KIND_TELEMETRY,
}

// Changes lists what differs from a to b, by kind in the order of the language;
// within a kind those of b in their order, then those that only a has. Either
// may be nil, which is empty. It is empty if and only if the digests are equal.
// If eachField is false, Fields stays empty.
func Changes(a, b *configv1.Snapshot, eachField bool) []ResourceChange {
	a, b = orEmpty(a), orEmpty(b)
	return changes(a, b, summarize(a, nil, nil), summarize(b, nil, nil), eachField)
}

// ChangesFrom is Changes from an earlier snapshot, which may be nil, to this.
func (s *Snapshot) ChangesFrom(prev *Snapshot) []ResourceChange {
	if prev == nil {
		return Changes(nil, s.Source, true)
	}
	return changes(prev.Source, s.Source, prev.made.sums, s.made.sums, true)
}

func orEmpty(in *configv1.Snapshot) *configv1.Snapshot {
	if in == nil {
		return &configv1.Snapshot{}
	}
	return in
}

func changes(a, b *configv1.Snapshot, sumsA, sumsB sums, eachField bool) []ResourceChange {
	var out []ResourceChange
	fields := b.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		kind, known := kinds[fd.Name()]
		if !known {
			continue
		}
		c := comparison{kind: kind, a: side(a, fd, sumsA), b: side(b, fd, sumsB), eachField: eachField}
		out = append(out, c.changes()...)
	}
	return out
}

// resources is one kind of a configuration.
type resources struct {
	list  []protoreflect.Message
	names []string
	sums  []sum
}

func side(in *configv1.Snapshot, fd protoreflect.FieldDescriptor, all sums) resources {
	m := in.ProtoReflect()
	r := resources{sums: all[fd.Number()]}
	switch {
	case !m.Has(fd):
	case fd.IsList():
		list := m.Get(fd).List()
		for i := range list.Len() {
			r.list = append(r.list, list.Get(i).Message())
			r.names = append(r.names, nameOf(list.Get(i).Message()))
		}
	default:
		r.list, r.names = []protoreflect.Message{m.Get(fd).Message()}, []string{""}
	}
	return r
}

// nameOf is what a resource is referred to by: its id, or else its name.
func nameOf(m protoreflect.Message) string {
	for _, name := range []protoreflect.Name{"id", "name"} {
		if fd := m.Descriptor().Fields().ByName(name); fd != nil {
			return m.Get(fd).String()
		}
	}
	return ""
}

// comparison compares one kind.
type comparison struct {
	kind      controlv1.ResourceKind
	a, b      resources
	eachField bool
}

func (c *comparison) changes() []ResourceChange {
	if slices.Equal(c.a.sums, c.b.sums) {
		return nil
	}
	byName := make(map[string]int, len(c.a.names))
	for i, name := range c.a.names {
		byName[name] = i
	}
	was := make([]int, len(c.b.names)) // where each of b is in a, or -1
	kept := make([]bool, len(c.a.names))
	for i, name := range c.b.names {
		was[i] = -1
		if j, ok := byName[name]; ok && !kept[j] {
			was[i], kept[j] = j, true
		}
	}
	moved := displaced(was)
	var out []ResourceChange
	for i, j := range was {
		if change, differs := c.compare(i, j, moved[i]); differs {
			out = append(out, change)
		}
	}
	for j, name := range c.a.names {
		if !kept[j] {
			out = append(out, ResourceChange{Kind: c.kind, Name: name, Change: Removed, OldIndex: j, NewIndex: -1})
		}
	}
	return out
}

// compare compares number i of b with number j of a, if there is one.
func (c *comparison) compare(i, j int, moved bool) (ResourceChange, bool) {
	out := ResourceChange{Kind: c.kind, Name: c.b.names[i], Change: Added, OldIndex: j, NewIndex: i}
	if j < 0 {
		return out, true
	}
	out.Change, out.Moved = Changed, moved
	if c.a.sums[j] == c.b.sums[i] {
		return out, moved
	}
	if c.eachField {
		out.Fields = fieldChanges(c.a.list[j], c.b.list[i])
	}
	return out, true
}

// displaced marks the fewest elements without which the rest, -1 left out, is
// in increasing order.
func displaced(list []int) []bool {
	out := make([]bool, len(list))
	var tails []int // of the best run of each length, the index of its last element
	before := make([]int, len(list))
	for i, v := range list {
		if v < 0 {
			continue
		}
		out[i] = true
		at, _ := slices.BinarySearchFunc(tails, v, func(t, v int) int { return list[t] - v })
		before[i] = -1
		if at > 0 {
			before[i] = tails[at-1]
		}
		if at == len(tails) {
			tails = append(tails, i)
		} else {
			tails[at] = i
		}
	}
	if len(tails) > 0 {
		for i := tails[len(tails)-1]; i >= 0; i = before[i] {
			out[i] = false
		}
	}
	return out
}

// Bounds of a Diff, as its message states them.
const (
	maxChanges    = 1000
	maxFieldPaths = 32
	orderMark     = "(order)"
)

// Diff is Changes in the form of the control API.
func Diff(a, b *configv1.Snapshot) *controlv1.Diff { return asDiff(Changes(a, b, true)) }

// DiffFrom is ChangesFrom in the form of the control API.
func (s *Snapshot) DiffFrom(prev *Snapshot) *controlv1.Diff { return asDiff(s.ChangesFrom(prev)) }

func asDiff(all []ResourceChange) *controlv1.Diff {
	out := &controlv1.Diff{}
	for i := range all {
		switch all[i].Change {
		case Added:
			out.AddedCount++
			out.Added = appendChange(out.Added, &all[i])
		case Removed:
			out.RemovedCount++
			out.Removed = appendChange(out.Removed, &all[i])
		case Changed:
			out.ChangedCount++
			out.Changed = appendChange(out.Changed, &all[i])
		}
	}
	return out
}

func appendChange(list []*controlv1.Change, c *ResourceChange) []*controlv1.Change {
	if len(list) == maxChanges {
		return list
	}
	out := &controlv1.Change{Kind: c.Kind, Name: c.Name}
	if c.Moved {
		out.FieldPaths = append(out.FieldPaths, orderMark)
	}
	for _, f := range c.Fields {
		if len(out.FieldPaths) < maxFieldPaths {
			out.FieldPaths = append(out.FieldPaths, f.Path)
		}
	}
	return append(list, out)
}
