package snapshot

import (
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// unencodable refuses text that is not UTF-8, which cannot be encoded and so not
// be stored. Such text comes in no message from outside, and few fields have a
// rule that it breaks.
func (c *compiler) unencodable() {
	fields := (*configv1.Snapshot)(nil).ProtoReflect().Descriptor().Fields()
	for number, content := range c.out.made.contents {
		for _, i := range content.bad {
			fd := fields.ByNumber(number)
			f := faults{kind: fd.JSONName(), index: i}
			if !fd.IsList() {
				f.index = -1
			}
			f.add(RuleText, badText(elements(c.in, fd)[i].ProtoReflect()), "is not UTF-8")
			c.found = append(c.found, f.list...)
		}
	}
}

// badText is the path to the first text of a message that is not UTF-8.
func badText(m protoreflect.Message) string {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) || fd.IsMap() {
			continue
		}
		if !fd.IsList() {
			if path, bad := badValue(fd, m.Get(fd), fd.JSONName()); bad {
				return path
			}
			continue
		}
		for j := range m.Get(fd).List().Len() {
			if path, bad := badValue(fd, m.Get(fd).List().Get(j), item(fd.JSONName(), j)); bad {
				return path
			}
		}
	}
	return ""
}

// badValue is badText for one value, which path leads to.
func badValue(fd protoreflect.FieldDescriptor, v protoreflect.Value, path string) (string, bool) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return path, !utf8.ValidString(v.String())
	case protoreflect.MessageKind:
		below := badText(v.Message())
		return join(path, below), below != ""
	}
	return "", false
}
