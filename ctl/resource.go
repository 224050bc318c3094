package ctl

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// kind is a kind of resource, and where it stands in the messages.
type kind struct {
	enum     controlv1.ResourceKind
	singular string // for people
	list     string // field of Snapshot, in JSON names
	one      string // field of Resource
	key      string // field that names it; "": there is one at most
}

// kinds are in the order of a manifest.
var kinds = []kind{
	{controlv1.ResourceKind_RESOURCE_KIND_LISTENER, "listener", "listeners", "listener", "name"},
	{controlv1.ResourceKind_RESOURCE_KIND_CERTIFICATE, "certificate", "certificates", "certificate", "name"},
	{controlv1.ResourceKind_RESOURCE_KIND_CA_BUNDLE, "caBundle", "caBundles", "caBundle", "name"},
	{controlv1.ResourceKind_RESOURCE_KIND_CLUSTER, "cluster", "clusters", "cluster", "name"},
	{controlv1.ResourceKind_RESOURCE_KIND_RATE_LIMIT, "rateLimit", "rateLimits", "rateLimit", "name"},
	{controlv1.ResourceKind_RESOURCE_KIND_TIER, "tier", "tiers", "tier", "name"},
	{controlv1.ResourceKind_RESOURCE_KIND_API_KEY, "apiKey", "apiKeys", "apiKey", "id"},
	{controlv1.ResourceKind_RESOURCE_KIND_ROUTE, "route", "routes", "route", "name"},
	{controlv1.ResourceKind_RESOURCE_KIND_TELEMETRY, "telemetry", "telemetry", "telemetry", ""},
}

// kindOf finds a kind by its number.
func kindOf(enum controlv1.ResourceKind) (kind, bool) {
	for _, k := range kinds {
		if k.enum == enum {
			return k, true
		}
	}
	return kind{}, false
}

// resourcesOf takes a snapshot apart, in the order of kinds. The parts are
// shared with it.
func resourcesOf(s *configv1.Snapshot) []*controlv1.Resource {
	var parts []*controlv1.Resource
	whole := s.ProtoReflect()
	for _, k := range kinds {
		field := whole.Descriptor().Fields().ByJSONName(k.list)
		if !whole.Has(field) {
			continue
		}
		if k.key == "" {
			parts = append(parts, wrap(k, whole.Get(field)))
			continue
		}
		list := whole.Get(field).List()
		for i := range list.Len() {
			parts = append(parts, wrap(k, list.Get(i)))
		}
	}
	return parts
}

// wrap makes a resource of what it holds.
func wrap(k kind, value protoreflect.Value) *controlv1.Resource {
	part := new(controlv1.Resource)
	m := part.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByJSONName(k.one), value)
	return part
}

// addResource puts a part into a snapshot, after those of its kind.
func addResource(s *configv1.Snapshot, part *controlv1.Resource) {
	k, inner := open(part)
	if inner == nil {
		return // of a kind that this program does not know
	}
	whole := s.ProtoReflect()
	into := whole.Descriptor().Fields().ByJSONName(k.list)
	if k.key == "" {
		whole.Set(into, protoreflect.ValueOfMessage(inner))
		return
	}
	whole.Mutable(into).List().Append(protoreflect.ValueOfMessage(inner))
}

// find is the resource of that kind and name, nil if there is none.
func find(s *configv1.Snapshot, k kind, name string) protoreflect.Message {
	if s == nil {
		return nil
	}
	whole := s.ProtoReflect()
	field := whole.Descriptor().Fields().ByJSONName(k.list)
	if k.key == "" {
		if !whole.Has(field) {
			return nil
		}
		return whole.Get(field).Message()
	}
	list := whole.Get(field).List()
	for i := range list.Len() {
		m := list.Get(i).Message()
		if m.Get(m.Descriptor().Fields().ByJSONName(k.key)).String() == name {
			return m
		}
	}
	return nil
}

// pieceBytes is how much of a snapshot goes into one message. It leaves room
// under the limit of maxMessageBytes for one more resource of usual size.
const pieceBytes = 256 << 10

// pieces groups resources so that each group makes a message under the limit.
// A resource that is too large on its own is an error that names it.
func pieces(parts []*controlv1.Resource) ([][]*controlv1.Resource, error) {
	const overhead = 16 // tags and lengths around a resource
	var groups [][]*controlv1.Resource
	size := pieceBytes
	for _, part := range parts {
		bytes := proto.Size(part) + overhead
		if bytes > maxMessageBytes-1024 {
			return nil, fmt.Errorf("%s is %d bytes; the control API takes at most 1 MiB", describe(part), bytes)
		}
		if size += bytes; size > pieceBytes {
			groups = append(groups, nil)
			size = bytes
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], part)
	}
	return groups, nil
}

// describe is "route users".
func describe(part *controlv1.Resource) string {
	k, inner := open(part)
	if k.key == "" {
		return k.singular
	}
	return k.singular + " " + inner.Get(inner.Descriptor().Fields().ByJSONName(k.key)).String()
}

// nameOf is the name of a resource, "" if its kind has none.
func nameOf(part *controlv1.Resource) string {
	k, inner := open(part)
	if k.key == "" {
		return ""
	}
	return inner.Get(inner.Descriptor().Fields().ByJSONName(k.key)).String()
}

// open is the kind of a resource, and what it holds.
func open(part *controlv1.Resource) (kind, protoreflect.Message) {
	m := part.ProtoReflect()
	for _, k := range kinds {
		if field := m.Descriptor().Fields().ByJSONName(k.one); m.Has(field) {
			return k, m.Get(field).Message()
		}
	}
	return kind{singular: "resource"}, nil
}
