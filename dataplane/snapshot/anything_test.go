package snapshot

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// texts are values that some field or other takes, and values that none does.
var texts = rapid.SampledFrom([]string{
	"", "a", "b", "web", "127.0.0.1:80", "127.0.0.1:81", ":0", "[::1]:80", "unix:/s", "unix:", ":", "db:80",
	"/", "/v1", "/v1/", "//", "/a/../b", "/%2f", "/%", "^/(.*)$", "(", "$1", "$2", "/$1x", "$", "200-299", "299-200", "503",
	"*.example.com", "example.com", "EXAMPLE.com", "*", "GET", "get", "host", "content-length", "x-a", "X-A", "te",
	"10.0.0.0/8", "::/0", "1.2.3.4", "10.0.0.0/99", "5xx", "timeout", "https", "\x00", "\n", "\xff", "é", Redacted,
})

// anything fills a message at random.
func anything(t *rapid.T, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if rapid.IntRange(0, 2).Draw(t, fd.JSONName()) > 0 || depth > 6 || fd.IsMap() {
			continue
		}
		if !fd.IsList() {
			if v, ok := something(t, fd, m.NewField(fd), depth); ok {
				m.Set(fd, v)
			}
			continue
		}
		list := m.Mutable(fd).List()
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			if v, ok := something(t, fd, list.NewElement(), depth); ok {
				list.Append(v)
			}
		}
	}
}

// something is a value for a field.
func something(t *rapid.T, fd protoreflect.FieldDescriptor, empty protoreflect.Value, depth int) (protoreflect.Value, bool) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(texts.Draw(t, "text")), true
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool")), true
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rapid.OneOf(rapid.Uint32Range(0, 3), rapid.Uint32()).Draw(t, "number")), true
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "number")), true
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "number")), true
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.OneOf(rapid.Int64Range(-1, 100), rapid.Int64()).Draw(t, "number")), true
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64().Draw(t, "number")), true
	case protoreflect.MessageKind:
		anything(t, empty.Message(), depth+1)
		return empty, true
	}
	return protoreflect.Value{}, false
}

// No message makes the compiler fail otherwise than by saying what is wrong with
// it, in an order that does not depend on chance.
func TestCompileAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := &configv1.Snapshot{}
		anything(t, in.ProtoReflect(), 0)
		s, first := Compile(proto.CloneOf(in))
		_, second := Compile(in)
		if len(first) != len(second) {
			t.Fatalf("%v, and then %v", first, second)
		}
		for i := range first {
			if first[i] != second[i] {
				t.Fatalf("%v, and then %v", first[i], second[i])
			}
		}
		Changes(nil, in, true)
		Changes(in, Redact(in), true)
		if s != nil {
			t.Log("accepted")
		}
	})
}
