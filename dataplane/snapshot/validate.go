package snapshot

import (
	"errors"
	"strconv"
	"strings"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// validator checks what one message can know of itself, by the rules in the
// protos. It is made on first use: compiling the rules takes a while.
var validator = sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() })

// checkRules records every rule that a resource breaks.
func checkRules(m proto.Message, f *faults) {
	v, err := validator()
	if err == nil {
		err = v.Validate(m)
	}
	var invalid *protovalidate.ValidationError
	switch {
	case err == nil:
	case errors.As(err, &invalid):
		for _, violation := range invalid.Violations {
			path, message := describe(violation.Proto, m.ProtoReflect().Descriptor())
			f.add(violation.Proto.GetRuleId(), path, "%s", message)
		}
	default:
		f.add("internal", "", "cannot be validated: %v", err)
	}
}

// describe gives a violation the path that the manifest uses and words that
// name its fields in the same way.
func describe(v *validate.Violation, root protoreflect.MessageDescriptor) (path, message string) {
	at := root
	for _, element := range v.GetField().GetElements() {
		name := protoreflect.Name(element.GetFieldName())
		if oneof := at.Oneofs().ByName(name); oneof != nil && at.Fields().ByName(name) == nil {
			return path, "needs one of " + alternatives(oneof)
		}
		fd := at.Fields().ByName(name)
		if fd == nil {
			break
		}
		path = join(path, fd.JSONName()+subscript(element))
		if fd.Message() != nil {
			at = fd.Message()
		}
	}
	switch v.GetRuleId() {
	case "required":
		return path, "is required"
	case "message.oneof":
		return path, camel(v.GetMessage(), at)
	}
	return path, strings.TrimPrefix(v.GetMessage(), "value ")
}

// subscript is the index of an element, "[2]", or nothing.
func subscript(e *validate.FieldPathElement) string {
	switch {
	case e.HasIndex():
		return "[" + strconv.FormatUint(e.GetIndex(), 10) + "]"
	case e.HasStringKey():
		return "[" + strconv.Quote(e.GetStringKey()) + "]"
	}
	return ""
}

// alternatives lists the fields of a oneof.
func alternatives(oneof protoreflect.OneofDescriptor) string {
	names := make([]string, oneof.Fields().Len())
	for i := range names {
		names[i] = oneof.Fields().Get(i).JSONName()
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// camel replaces the names of fields in a sentence by those of the manifest.
func camel(sentence string, m protoreflect.MessageDescriptor) string {
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		if strings.Contains(string(fd.Name()), "_") {
			sentence = strings.ReplaceAll(sentence, string(fd.Name()), fd.JSONName())
		}
	}
	return sentence
}
