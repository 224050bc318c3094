package snapshot

import (
	"bytes"
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

// unsummed are the fields that are no part of the content.
const versionField = 1

// Digest is the SHA-256 of a configuration in hex. Equal digests are equal
// configurations: the writer's version is left out, the order of lists counts.
// It is taken over the digests of the resources, so that a snapshot that
// differs in one of them costs one more.
func Digest(in *configv1.Snapshot) string {
	return digestSums(summarize(in))
}

// summarize takes the digest of every resource, in the deterministic form of
// protobuf's wire encoding. The language has no maps, so this form depends on
// nothing but the content.
func summarize(in *configv1.Snapshot) sums {
	m := in.ProtoReflect()
	fields := m.Descriptor().Fields()
	s := summarizer{out: sums{}}
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
	buf []byte
	out sums
}

func (s *summarizer) field(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	if !fd.IsList() {
		s.out[fd.Number()] = []sum{s.message(v.Message())}
		return
	}
	list := v.List()
	out := make([]sum, list.Len())
	for i := range out {
		out[i] = s.message(list.Get(i).Message())
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

// earlier finds resources of a kind in the snapshot before, by content.
type earlier struct {
	list []sum
	at   map[sum]int // made when the first one is not where it was
}

// find gives the index of the resource that had this content, or -1. Resources
// are most often where they were.
func (e *earlier) find(s sum, index int) int {
	if index < len(e.list) && bytes.Equal(e.list[index][:], s[:]) {
		return index
	}
	if e.at == nil {
		e.at = make(map[sum]int, len(e.list))
		for i := range e.list {
			e.at[e.list[i]] = i
		}
	}
	if i, ok := e.at[s]; ok {
		return i
	}
	return -1
}
