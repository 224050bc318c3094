package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// sum is the digest of one resource.
type sum = [sha256.Size]byte

// versionField is no part of the content.
const versionField = 1

// Digest is the SHA-256 of a configuration in hex. Equal digests are equal
// configurations: the writer's version is left out, the order of lists counts.
// It is taken over the digests of the resources, so that a snapshot that
// differs in one of them costs one more.
func Digest(in *configv1.Snapshot) string {
	return encode(in, nil, nil).digest()
}

// digest is the one over the digests, each list with its field number and
// length before it.
func (c contents) digest() string {
	h := sha256.New()
	var head [16]byte
	for number := range maxField + 1 {
		list := c[number].sums
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
