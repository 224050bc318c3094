package snapshot

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// leaves lists the fields of a message and of those below that have no fields
// of their own.
func leaves(m protoreflect.MessageDescriptor, path string) []string {
	var out []string
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		at := join(path, fd.JSONName())
		if fd.Message() == nil || wellKnown(fd.Message()) || fd.Message().Fields().Len() == 0 {
			out = append(out, at)
			continue
		}
		out = append(out, leaves(fd.Message(), at)...)
	}
	return out
}

// listed reports whether a list has a path, or all that is in a message above.
func listed(list []string, path string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		message, all := strings.CutSuffix(entry, ".*")
		return entry == path || all && strings.HasPrefix(path, message+".")
	})
}

// Each field of the language is built or refused, and it is written down which.
func TestLanguageIsListed(t *testing.T) {
	all := leaves((*configv1.Snapshot)(nil).ProtoReflect().Descriptor(), "")
	for _, path := range all {
		built, refused := listed(supported, path), listed(unsupported, path)
		if built == refused {
			t.Errorf("%s: in supported %v, in unsupported %v", path, built, refused)
		}
	}
	for _, entry := range slices.Concat(supported, unsupported) {
		if !slices.ContainsFunc(all, func(path string) bool { return listed([]string{entry}, path) }) {
			t.Errorf("%s: no such field", entry)
		}
	}
}

// The whole language by example: all of it can be read, and what is not built is
// refused by its path, and nothing else is.
func TestReference(t *testing.T) {
	text, err := os.ReadFile("testdata/reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, violations := Compile(read(t, string(text)))
	var got []string
	for _, v := range violations {
		if v.Warning {
			continue
		}
		if v.Rule != RuleUnsupported || v.Message != "not supported yet: "+v.Path {
			t.Error(v)
		}
		got = append(got, v.Path)
	}
	want := []string{
		"listeners[0].ipFilter",
		"rateLimits", "tiers", "apiKeys",
		"routes[0].auth", "routes[0].ipFilter",
		"routes[0].rateLimits", "routes[0].cache", "routes[0].compression", "routes[0].cors",
		"routes[3].registerDevice",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

// Without what is refused, the example applies.
func TestReferenceWithoutUnsupported(t *testing.T) {
	text, err := os.ReadFile("testdata/reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	in := read(t, string(text))
	prune(in.ProtoReflect(), language)
	in.Certificates = slices.DeleteFunc(in.Certificates, func(c *configv1.Certificate) bool { return c.Source == nil })
	in.Routes = slices.DeleteFunc(in.Routes, func(r *configv1.Route) bool { return r.Action == nil })
	s, violations := Compile(in)
	if s == nil {
		t.Fatal(violations)
	}
}

// prune takes away what is not supported.
func prune(m protoreflect.Message, at *field) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		below := at.children[fd.Number()]
		switch {
		case below == nil:
			m.Clear(fd)
		case below.leaf || fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				prune(v.List().Get(i).Message(), below)
			}
		default:
			if prune(v.Message(), below); proto.Size(v.Message().Interface()) == 0 {
				m.Clear(fd)
			}
		}
		return true
	})
}

// A field that only a newer program knows is refused wherever it is.
func TestUnknownFields(t *testing.T) {
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 9999, protowire.VarintType), 1)
	for path, message := range map[string]func(*configv1.Snapshot) proto.Message{
		"":                              func(in *configv1.Snapshot) proto.Message { return in },
		"listeners[0]":                  func(in *configv1.Snapshot) proto.Message { return in.Listeners[0] },
		"routes[0].forward.backends[0]": func(in *configv1.Snapshot) proto.Message { return in.Routes[0].GetForward().Backends[0] },
		"clusters[0].http1":             func(in *configv1.Snapshot) proto.Message { return in.Clusters[0].GetHttp1() },
		"telemetry.tracing":             func(in *configv1.Snapshot) proto.Message { return in.Telemetry.Tracing },
	} {
		in := read(t, base+"telemetry: {tracing: {}}")
		in.Clusters[0].Protocol = &configv1.Cluster_Http1{Http1: &configv1.Http1{}}
		before := Digest(in)
		message(in).ProtoReflect().SetUnknown(unknown)
		_, violations := Compile(in)
		if len(violations) != 1 || violations[0].Path != path || violations[0].Rule != RuleUnknown {
			t.Errorf("%q: %v", path, violations)
		}
		if Digest(in) == before {
			t.Errorf("%q: the digest is the same", path)
		}
	}
}
