package snapshot

import (
	"crypto/sha256"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// content is the resources of one kind, each encoded once: the same bytes tell
// whether it has changed, give its digest, and are what is stored.
type content struct {
	wire string // fields of a snapshot, one for each resource, in protobuf's deterministic encoding
	ends []int  // where in wire each ends
	sums []sum  // over each without its tag and length
	bad  []int  // those that have no encoding, by index; their wire does but tell them apart
}

// at is the field that holds a resource.
func (c *content) at(i int) string {
	if i == 0 {
		return c.wire[:c.ends[0]]
	}
	return c.wire[c.ends[i-1]:c.ends[i]]
}

// contents are by the number of the field that holds the resources.
type contents map[protoreflect.FieldNumber]content

// encode encodes the resources of a configuration. Those that known, the
// contents of one before, holds as well have their digests there. A message that
// is one of shared, the messages that known was made of, is not even read. Either
// may be nil.
//
// To encode is most of the work when little has changed in a large configuration,
// so the kinds are encoded side by side.
func encode(in, shared *configv1.Snapshot, known contents) contents {
	m := in.ProtoReflect()
	fields := m.Descriptor().Fields()
	list := make([]content, fields.Len())
	parallel(len(list), func(i int) {
		if fd := fields.Get(i); fd.Number() != versionField {
			list[i] = encodeKind(fd.Number(), elements(in, fd), elements(shared, fd), known[fd.Number()])
		}
	})
	out := contents{}
	for i, c := range list {
		if len(c.sums) > 0 {
			out[fields.Get(i).Number()] = c
		}
	}
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		out[0] = content{wire: string(unknown), ends: []int{len(unknown)}, sums: []sum{sha256.Sum256(unknown)}}
	}
	return out
}

// elements are the resources in a field, which may hold one and be no list. Those
// of which there are many are not fetched one by one by reflection.
func elements(in *configv1.Snapshot, fd protoreflect.FieldDescriptor) []proto.Message {
	m := in.ProtoReflect()
	switch {
	case fd.Number() == clusterField:
		return messages(in.GetClusters())
	case fd.Number() == routeField:
		return messages(in.GetRoutes())
	case !m.Has(fd):
		return nil
	case !fd.IsList():
		return []proto.Message{m.Get(fd).Message().Interface()}
	}
	list := m.Get(fd).List()
	out := make([]proto.Message, list.Len())
	for i := range out {
		out[i] = list.Get(i).Message().Interface()
	}
	return out
}

func messages[M proto.Message](list []M) []proto.Message {
	out := make([]proto.Message, len(list))
	for i, m := range list {
		out[i] = m
	}
	return out
}

func encodeKind(number protoreflect.FieldNumber, in, shared []proto.Message, known content) content {
	out := content{ends: make([]int, len(in)), sums: make([]sum, len(in))}
	before := finder[proto.Message]{
		n:   min(len(shared), len(known.sums)),
		key: func(i int) proto.Message { return shared[i] },
	}
	buf := make([]byte, 0, len(known.wire)+len(known.wire)/16)
	for i, m := range in {
		if old := before.find(m, i); old >= 0 {
			buf = append(buf, known.at(old)...)
			out.ends[i] = len(buf)
			continue
		}
		var err error
		if buf, err = appendField(buf, number, m); err != nil {
			out.bad = append(out.bad, i)
		}
		out.ends[i] = len(buf)
	}
	out.wire = string(buf)
	out.summarize(buf, known)
	return out
}

// appendField appends a resource as a field. Only text that is not UTF-8 fails;
// what is appended then is no field, but says what of it could be encoded.
func appendField(dst []byte, number protoreflect.FieldNumber, m proto.Message) ([]byte, error) {
	dst = protowire.AppendTag(dst, number, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(deterministic.Size(m)))
	dst, err := sized.MarshalAppend(dst, m)
	if err != nil {
		dst = append(dst, err.Error()...)
	}
	return dst, err
}

// Both leave it to the rules to say what is missing.
var (
	deterministic = proto.MarshalOptions{Deterministic: true, AllowPartial: true}
	sized         = proto.MarshalOptions{Deterministic: true, AllowPartial: true, UseCachedSize: true}
)

// summarize takes the digests, from known where the same bytes have one. buf is
// what wire was made of.
func (c *content) summarize(buf []byte, known content) {
	before := finder[string]{n: len(known.sums), key: known.at}
	for i := range c.sums {
		field := c.at(i)
		if old := before.find(field, i); old >= 0 {
			c.sums[i] = known.sums[old]
		} else {
			c.sums[i] = sha256.Sum256(valueOf(buf[c.ends[i]-len(field) : c.ends[i]]))
		}
	}
}

// valueOf is a field without its tag and length.
func valueOf(field []byte) []byte {
	_, _, tag := protowire.ConsumeTag(field)
	_, length := protowire.ConsumeVarint(field[tag:])
	return field[tag+length:]
}

// Encoded is the source in protobuf's encoding, put together from what was
// encoded to compile it.
func (s *Snapshot) Encoded() []byte {
	version := s.Source.GetVersion()
	numbers := make([]protoreflect.FieldNumber, 0, len(s.made.contents))
	size := len(version) + 16
	for number, c := range s.made.contents {
		numbers = append(numbers, number)
		size += len(c.wire)
	}
	slices.Sort(numbers)
	out := make([]byte, 0, size)
	if version != "" {
		out = protowire.AppendTag(out, versionField, protowire.BytesType)
		out = protowire.AppendString(out, version)
	}
	for _, number := range numbers {
		out = append(out, s.made.contents[number].wire...)
	}
	return out
}
