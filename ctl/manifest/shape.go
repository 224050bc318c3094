package manifest

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// maxFaults bounds the faults of one document.
const maxFaults = 1000

// shape holds the nodes of a document against the messages of the language:
// fields that there are, given once, with a value of the right kind. The
// values of scalars are left to the conversion.
type shape struct {
	document *document
	faults   []Fault

	line, column int        // of a value that is looked for; 0: none
	found        *yaml.Node // the value there
	foundPath    string
	foundField   protoreflect.FieldDescriptor
}

func (s *shape) fault(at *yaml.Node, path, hint, format string, args ...any) {
	if len(s.faults) < maxFaults {
		s.faults = append(s.faults, s.document.fault(at, path, fmt.Sprintf(format, args...), hint))
	}
}

// message checks a mapping.
func (s *shape) message(n *yaml.Node, m protoreflect.MessageDescriptor, path string) {
	if n.Kind != yaml.MappingNode {
		s.fault(n, path, "fields here are "+fieldNames(m), "expected fields, found %s", kindOf(n))
		return
	}
	given := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		fd := s.key(key, m, path, given)
		if fd == nil {
			continue
		}
		at := join(path, fd.JSONName())
		s.oneof(key, fd, at, given)
		s.field(value, fd, at)
	}
}

// key finds the field that a key names.
func (s *shape) key(key *yaml.Node, m protoreflect.MessageDescriptor, path string, given map[string]*yaml.Node) protoreflect.FieldDescriptor {
	if key.Kind != yaml.ScalarNode {
		s.fault(key, path, "fields here are "+fieldNames(m), "expected the name of a field, found %s", kindOf(key))
		return nil
	}
	name := key.Value
	if first := given[name]; first != nil {
		s.fault(key, join(path, name), "", "%s is given a second time; the first is on line %d", name, s.document.before+first.Line)
		return nil
	}
	given[name] = key
	fd := m.Fields().ByJSONName(name)
	if fd == nil {
		s.unknown(key, m, path)
	}
	return fd
}

// unknown is the fault of a field that there is not.
func (s *shape) unknown(key *yaml.Node, m protoreflect.MessageDescriptor, path string) {
	hint := "fields here are " + fieldNames(m)
	if key.Value == "<<" {
		hint = "merge keys are not supported: write the fields out"
	} else if near := snapshot.Nearest(key.Value, names(m)); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	} else if m.Fields().Len() == 0 {
		hint = "it has no fields: write {}"
	}
	where := "a snapshot"
	if path != "" {
		where = path
	}
	s.fault(key, join(path, key.Value), hint, "%s has no field %q", where, clip(key.Value))
}

// oneof refuses a second one of fields that exclude each other.
func (s *shape) oneof(key *yaml.Node, fd protoreflect.FieldDescriptor, path string, given map[string]*yaml.Node) {
	group := fd.ContainingOneof()
	if group == nil || group.IsSynthetic() {
		return
	}
	for i := range group.Fields().Len() {
		other := group.Fields().Get(i)
		if first := given[other.JSONName()]; other != fd && first != nil {
			s.fault(key, path, "", "%s excludes %s, which is given on line %d", fd.JSONName(), other.JSONName(), s.document.before+first.Line)
		}
	}
}

// field checks the value of a field.
func (s *shape) field(n *yaml.Node, fd protoreflect.FieldDescriptor, path string) {
	s.look(n, fd, path)
	switch {
	case n.Kind == yaml.AliasNode:
		s.fault(n, path, "write the value out", "aliases are not supported")
	case isNull(n):
		s.fault(n, path, empty(fd), "%s has no value", fd.JSONName())
	case fd.IsList() || isListValue(fd):
		s.list(n, fd, path)
	default:
		s.value(n, fd, path)
	}
}

func (s *shape) list(n *yaml.Node, fd protoreflect.FieldDescriptor, path string) {
	if n.Kind != yaml.SequenceNode {
		s.fault(n, path, "write one element a line, each after \"- \", or [a, b]", "expected a list, found %s", kindOf(n))
		return
	}
	for i, element := range n.Content {
		at := path + "[" + strconv.Itoa(i) + "]"
		switch {
		case element.Kind == yaml.AliasNode:
			s.fault(element, at, "write the value out", "aliases are not supported")
		case isNull(element):
			s.fault(element, at, "", "the element has no value")
		case isListValue(fd):
			s.scalar(element, at, "a text")
		default:
			s.look(element, fd, at)
			s.value(element, fd, at)
		}
	}
}

// value checks one value, of a field or of an element of a list.
func (s *shape) value(n *yaml.Node, fd protoreflect.FieldDescriptor, path string) {
	if fd.Message() != nil && !isWellKnown(fd) {
		s.message(n, fd.Message(), path)
		return
	}
	s.scalar(n, path, expects(fd))
}

func (s *shape) scalar(n *yaml.Node, path, expected string) {
	if n.Kind != yaml.ScalarNode {
		s.fault(n, path, "", "expected %s, found %s", expected, kindOf(n))
	}
}

// look notes the value that is looked for.
func (s *shape) look(n *yaml.Node, fd protoreflect.FieldDescriptor, path string) {
	if s.line > 0 && n.Line == s.line && n.Column == s.column {
		s.found, s.foundPath, s.foundField = n, path, fd
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func isWellKnown(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().ParentFile().Package() == "google.protobuf"
}

func isListValue(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() == "google.protobuf.ListValue"
}

// kindOf says what a node is.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "fields"
	case n.Kind == yaml.AliasNode:
		return "an alias, which is not supported"
	case isNull(n):
		return "nothing"
	}
	return shown(n)
}

// shown is a scalar in a message.
func shown(n *yaml.Node) string { return strconv.Quote(clip(n.Value)) }

// clip shortens a user's text in a message.
func clip(s string) string {
	const longest = 100
	if r := []rune(s); len(r) > longest {
		return string(r[:longest]) + "..."
	}
	return s
}

// expects names the kind of value that a field has.
func expects(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return "a whole number from -2147483648 to 2147483647"
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return "a whole number from 0 to 4294967295"
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return "a whole number from 0 to 18446744073709551615"
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "a number"
	case protoreflect.StringKind:
		return "a text"
	}
	if isWellKnown(fd) && fd.Message().Name() == "Duration" {
		return "a duration"
	}
	return ""
}

// example shows a value that a field may have.
func example(fd protoreflect.FieldDescriptor) string {
	if isWellKnown(fd) {
		return "write a number with its unit, such as 10s, 250ms or 1h"
	}
	return ""
}

// empty says what to write in place of nothing.
func empty(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.IsList() || isListValue(fd):
		return "write [] for an empty list, or leave it out"
	case fd.Message() != nil && !isWellKnown(fd):
		return "write {} for its defaults, or leave it out"
	}
	return "give it one, or leave it out"
}

// names are the fields of a message.
func names(m protoreflect.MessageDescriptor) []string {
	out := make([]string, m.Fields().Len())
	for i := range out {
		out[i] = m.Fields().Get(i).JSONName()
	}
	return out
}

func fieldNames(m protoreflect.MessageDescriptor) string { return strings.Join(names(m), ", ") }

// topLevel are the fields of a snapshot.
func topLevel() string {
	return fieldNames((*configv1.Snapshot)(nil).ProtoReflect().Descriptor())
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
