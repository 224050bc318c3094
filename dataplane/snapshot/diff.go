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
	return changes(a, b, encode(a, nil, nil), encode(b, nil, nil), eachField)
}

// ChangesFrom is Changes from an earlier snapshot, which may be nil, to this.
func (s *Snapshot) ChangesFrom(prev *Snapshot) []ResourceChange {
	if prev == nil {
		return Changes(nil, s.Source, true)
	}
	return changes(prev.Source, s.Source, prev.made.contents, s.made.contents, true)
}

func orEmpty(in *configv1.Snapshot) *configv1.Snapshot {
	if in == nil {
		return &configv1.Snapshot{}
	}
	return in
}

func changes(a, b *configv1.Snapshot, contentsA, contentsB contents, eachField bool) []ResourceChange {
	var out []ResourceChange
	fields := b.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		kind, known := kinds[fd.Name()]
		if !known {
			continue
		}
		ofA, ofB := contentsA[fd.Number()].sums, contentsB[fd.Number()].sums
		if slices.Equal(ofA, ofB) {
			continue
		}
		first, alike := alikeAtEnds(ofA, ofB)
		c := comparison{
			kind: kind, first: first, eachField: eachField,
			a: side(a, fd, ofA[first:len(ofA)-alike], first), b: side(b, fd, ofB[first:len(ofB)-alike], first),
		}
		out = append(out, c.changes()...)
	}
	return out
}

// alikeAtEnds counts the resources that are the same in the same order before
// the first difference and after the last: of many, few change.
func alikeAtEnds(a, b []sum) (before, after int) {
	shorter := min(len(a), len(b))
	for before < shorter && a[before] == b[before] {
		before++
	}
	for after < shorter-before && a[len(a)-1-after] == b[len(b)-1-after] {
		after++
	}
	return before, after
}

// resources is those of one kind that are compared.
type resources struct {
	list  []protoreflect.Message
	names []string
	sums  []sum
}

// side takes the resources that have these sums, from index first on.
func side(in *configv1.Snapshot, fd protoreflect.FieldDescriptor, these []sum, first int) resources {
	m := in.ProtoReflect()
	r := resources{sums: these}
	switch {
	case !m.Has(fd):
	case fd.IsList():
		list, name := m.Get(fd).List(), nameField(fd.Message())
		for i := range these {
			resource := list.Get(first + i).Message()
			r.list = append(r.list, resource)
			r.names = append(r.names, resource.Get(name).String())
		}
	default:
		r.list, r.names = []protoreflect.Message{m.Get(fd).Message()}, []string{""}
	}
	return r
}

// nameField holds what a resource is referred to by: its id, or else its name.
func nameField(m protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	if id := m.Fields().ByName("id"); id != nil {
		return id
	}
	return m.Fields().ByName("name")
}

// comparison compares one kind.
type comparison struct {
	kind      controlv1.ResourceKind
	a, b      resources
	first     int // index of the first of both
	eachField bool
}

func (c *comparison) changes() []ResourceChange {
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
			out = append(out, ResourceChange{Kind: c.kind, Name: name, Change: Removed, OldIndex: c.first + j, NewIndex: -1})
		}
	}
	return out
}

// compare compares number i of b with number j of a, if there is one.
func (c *comparison) compare(i, j int, moved bool) (ResourceChange, bool) {
	out := ResourceChange{Kind: c.kind, Name: c.b.names[i], Change: Added, OldIndex: -1, NewIndex: c.first + i}
	if j < 0 {
		return out, true
	}
	out.Change, out.Moved, out.OldIndex = Changed, moved, c.first+j
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
