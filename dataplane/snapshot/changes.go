package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// FieldChange is a field of a resource that differs.
type FieldChange struct {
	Path string // within the resource, such as endpoints[1].weight; of the new one, unless it is only in the old
	Old  string // as in the manifest, on one line; "": it was not set
	New  string // "": it is no longer set
}

// String is the path with both values.
func (c FieldChange) String() string {
	switch {
	case c.Old == "":
		return c.Path + ": " + c.New
	case c.New == "":
		return c.Path + ": " + c.Old + " -> (unset)"
	}
	return c.Path + ": " + c.Old + " -> " + c.New
}

// fieldChanges compares two messages of one type, field by field.
func fieldChanges(a, b protoreflect.Message) []FieldChange {
	var w changeWalk
	w.message("", a, b)
	return w.out
}

type changeWalk struct{ out []FieldChange }

func (w *changeWalk) add(path, was, is string) {
	w.out = append(w.out, FieldChange{Path: path, Old: was, New: is})
}

func (w *changeWalk) message(path string, a, b protoreflect.Message) {
	fields := b.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if a.Has(fd) || b.Has(fd) {
			w.field(join(path, fd.JSONName()), fd, a, b)
		}
	}
	if !bytes.Equal(a.GetUnknown(), b.GetUnknown()) {
		w.add(join(path, "(unknown fields)"), fmt.Sprintf("%x", []byte(a.GetUnknown())), fmt.Sprintf("%x", []byte(b.GetUnknown())))
	}
}

func (w *changeWalk) field(path string, fd protoreflect.FieldDescriptor, a, b protoreflect.Message) {
	nested := fd.Message() != nil && !wellKnown(fd.Message()) && !fd.IsMap()
	switch {
	case nested && fd.IsList():
		w.list(path, a.Get(fd).List(), b.Get(fd).List())
	case nested && a.Has(fd) && b.Has(fd):
		w.message(path, a.Get(fd).Message(), b.Get(fd).Message())
	case a.Has(fd) != b.Has(fd) || !a.Get(fd).Equal(b.Get(fd)):
		w.add(path, shown(fd, a), shown(fd, b))
	}
}

// list compares lists of messages. What is equal at both ends is put aside, so
// that one that comes in or goes is not a change of all that follow it.
func (w *changeWalk) list(path string, a, b protoreflect.List) {
	start, endA, endB := 0, a.Len(), b.Len()
	equal := func(i, j int) bool {
		return proto.Equal(a.Get(i).Message().Interface(), b.Get(j).Message().Interface())
	}
	for start < min(endA, endB) && equal(start, start) {
		start++
	}
	for start < min(endA, endB) && equal(endA-1, endB-1) {
		endA, endB = endA-1, endB-1
	}
	for ; start < min(endA, endB); start++ {
		w.message(item(path, start), a.Get(start).Message(), b.Get(start).Message())
	}
	for i := start; i < endA; i++ {
		w.add(item(path, i), text(a.Get(i).Message()), "")
	}
	for i := start; i < endB; i++ {
		w.add(item(path, i), "", text(b.Get(i).Message()))
	}
}

// shown is the value of a field in one line, or "" if it is not set. Secrets
// are told apart but not shown.
func shown(fd protoreflect.FieldDescriptor, m protoreflect.Message) string {
	v := m.Get(fd)
	switch {
	case !m.Has(fd):
		return ""
	case isSecret(fd):
		return Redacted
	case fd.IsList():
		return listText(fd, v.List())
	case fd.IsMap():
		return fmt.Sprint(v.Map().Len(), " entries")
	case fd.Message() != nil:
		return text(v.Message())
	case fd.Kind() == protoreflect.StringKind:
		return quote(v.String())
	}
	return v.String()
}

func listText(fd protoreflect.FieldDescriptor, list protoreflect.List) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range list.Len() {
		if i > 0 {
			b.WriteString(", ")
		}
		switch {
		case fd.Message() != nil:
			b.WriteString(text(list.Get(i).Message()))
		case fd.Kind() == protoreflect.StringKind:
			b.WriteString(quote(list.Get(i).String()))
		default:
			b.WriteString(list.Get(i).String())
		}
	}
	b.WriteByte(']')
	return b.String()
}

// text is a message in one line of JSON; a duration as the manifest has it.
func text(m protoreflect.Message) string {
	if d, ok := m.Interface().(*durationpb.Duration); ok {
		return d.AsDuration().String()
	}
	data, err := protojson.Marshal(withoutSecrets(m))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	var out bytes.Buffer
	if err := json.Compact(&out, data); err != nil {
		return string(data)
	}
	return out.String()
}

// withoutSecrets is a message that can be shown.
func withoutSecrets(m protoreflect.Message) proto.Message {
	if !holdsSecrets[m.Descriptor().FullName()] {
		return m.Interface()
	}
	out := proto.Clone(m.Interface())
	hideSecrets(out.ProtoReflect())
	return out
}
