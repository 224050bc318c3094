package snapshot

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// Redacted stands in the place of a secret that was taken out.
const Redacted = "[redacted]"

// Redact is a copy without its secrets: in every field that the protos mark
// with debug_redact there is Redacted instead. Compile refuses that word there,
// so that what was redacted cannot be applied by mistake. A configuration
// without secrets is returned as it is.
func Redact(in *configv1.Snapshot) *configv1.Snapshot {
	if in == nil || !eachSecret(in.ProtoReflect(), func(protoreflect.Message, protoreflect.FieldDescriptor) {}) {
		return in
	}
	out := proto.CloneOf(in)
	hideSecrets(out.ProtoReflect())
	return out
}

// hideSecrets takes the secrets out of a message. One that is not text leaves
// nothing behind.
func hideSecrets(m protoreflect.Message) {
	eachSecret(m, func(holder protoreflect.Message, fd protoreflect.FieldDescriptor) {
		if fd.Kind() == protoreflect.StringKind && !fd.IsList() {
			holder.Set(fd, protoreflect.ValueOfString(Redacted))
			return
		}
		holder.Clear(fd)
	})
}

// holdsSecrets are the messages that have a secret field, or one in a message
// below. Most resources need not be walked.
var holdsSecrets = func() map[protoreflect.FullName]bool {
	out := map[protoreflect.FullName]bool{}
	findSecrets((*configv1.Snapshot)(nil).ProtoReflect().Descriptor(), out, map[protoreflect.FullName]bool{})
	return out
}()

func findSecrets(m protoreflect.MessageDescriptor, out, seen map[protoreflect.FullName]bool) bool {
	if seen[m.FullName()] {
		return out[m.FullName()]
	}
	seen[m.FullName()] = true
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		if isSecret(fd) || fd.Message() != nil && findSecrets(fd.Message(), out, seen) {
			out[m.FullName()] = true
		}
	}
	return out[m.FullName()]
}

func isSecret(fd protoreflect.FieldDescriptor) bool {
	options, ok := fd.Options().(*descriptorpb.FieldOptions)
	return ok && options.GetDebugRedact()
}

// eachSecret calls found for every secret that is set in a message and in those
// below, and reports whether there was one.
func eachSecret(m protoreflect.Message, found func(protoreflect.Message, protoreflect.FieldDescriptor)) bool {
	if !holdsSecrets[m.Descriptor().FullName()] {
		return false
	}
	held := false
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case isSecret(fd):
			found(m, fd)
			held = true
		case fd.Message() == nil || fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				held = eachSecret(v.List().Get(i).Message(), found) || held
			}
		default:
			held = eachSecret(v.Message(), found) || held
		}
		return true
	})
	return held
}
