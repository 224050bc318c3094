package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// sum is the digest of one resource.
type sum = [sha256.Size]byte

// sums are the digests of the resources of a snapshot, by the number of the
// field that holds them and in their order.
type sums map[protoreflect.FieldNumber][]sum

// versionField is no part of the content.
const versionField = 1

// Digest is the SHA-256 of a configuration in hex. Equal digests are equal
// configurations: the writer's version is left out, the order of lists counts.
// It is taken over the digests of the resources, so that a snapshot that
// differs in one of them costs one more.
func Digest(in *configv1.Snapshot) string {
	return digestSums(summarize(in, nil, nil))
}

// summarize takes the digest of every resource, in the deterministic form of
// protobuf's wire encoding, which depends on
// nothing but the content. A message that is one of shared too has its digest
// in known; shared may be nil.
func summarize(in, shared *configv1.Snapshot, known sums) sums {
	m := in.ProtoReflect()
	fields := m.Descriptor().Fields()
	s := summarizer{out: sums{}, shared: shared.ProtoReflect(), known: known}
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Number() == versionField || !m.Has(fd) {
			continue
		}
		s.field(fd, m.Get(fd))
	}
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		s.out[0] = []sum{sha256.Sum256(unknown)}
	}
	return s.out
}

// summarizer reuses one buffer for all resources.
type summarizer struct {
	buf    []byte
	out    sums
	shared protoreflect.Message
	known  sums
}

func (s *summarizer) field(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	if !fd.IsList() {
		s.out[fd.Number()] = []sum{s.message(v.Message())}
		return
	}
	list := v.List()
	shared, known := s.shared.Get(fd).List(), s.known[fd.Number()]
	before := finder[proto.Message]{
		n:   min(shared.Len(), len(known)),
		key: func(i int) proto.Message { return shared.Get(i).Message().Interface() },
	}
	out := make([]sum, list.Len())
	for i := range out {
		m := list.Get(i).Message()
		if old := before.find(m.Interface(), i); old >= 0 {
			out[i] = known[old]
			continue
		}
		out[i] = s.message(m)
	}
	s.out[fd.Number()] = out
}

func (s *summarizer) message(m protoreflect.Message) sum {
	var err error
	s.buf, err = deterministic.MarshalAppend(s.buf[:0], m.Interface())
	if err != nil {
		// Only text that is not UTF-8 fails. It is refused later; the
		// digest must still tell it from what is not.
		return sha256.Sum256(append(s.buf, err.Error()...))
	}
	return sha256.Sum256(s.buf)
}

var deterministic = proto.MarshalOptions{Deterministic: true, AllowPartial: true}

// digestSums is the digest over the digests, each list with its field number
// and length before it.
func digestSums(all sums) string {
	h := sha256.New()
	var head [16]byte
	for number := range maxField + 1 {
		list := all[number]
		if len(list) == 0 {
			continue
		}
		binary.BigEndian.PutUint64(head[:8], uint64(number))
		binary.BigEndian.PutUint64(head[8:], uint64(len(list)))
		h.Write(head[:])
		for i := range list {
			h.Write(list[i][:])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// maxField is the highest number of a field of a snapshot.
var maxField = func() (highest protoreflect.FieldNumber) {
	fields := (*configv1.Snapshot)(nil).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		highest = max(highest, fields.Get(i).Number())
	}
	return highest
}()
