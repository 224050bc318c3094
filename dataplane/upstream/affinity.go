package upstream

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/upstream/balance"
)

// Key is what of a request is to be hashed for Pick.Hash; its Source is
// HashNothing if the policy goes by something else.
func (c *Cluster) Key() snapshot.HashKey { return c.config.Balancing.Key }

// Hash is the hash of a value for Pick.Hash.
func Hash[T string | []byte](value T) uint64 { return balance.Hash(value) }

// tokenLength is that of a token in a cookie: 64 bits in base64url.
const tokenLength = 11

// tokenOf names an endpoint of a cluster to clients. It depends on nothing else,
// so it means the same to all processes and after any apply. It does not show
// the address, though who guesses that can tell that the guess is right.
func tokenOf(cluster, address string) uint64 {
	sum := sha256.Sum256([]byte(cluster + "\x00" + address))
	return binary.BigEndian.Uint64(sum[:])
}

// ParseToken reads the value of an affinity cookie for Pick.Sticky.
func ParseToken(value []byte) (sticky uint64, ok bool) {
	var raw [8]byte
	if len(value) != tokenLength {
		return 0, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(raw[:], value)
	return binary.BigEndian.Uint64(raw[:]), err == nil && n == len(raw)
}

// AppendToken appends the value of the affinity cookie that leads back to an
// endpoint. The cluster that it was chosen from must have affinity.
func (e *Endpoint) AppendToken(dst []byte) []byte {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], e.token)
	return base64.RawURLEncoding.AppendEncode(dst, raw[:])
}

// BoundTo reports whether the cookie that the request came with leads to e
// already, so that it need not be set again.
func (p *Pick) BoundTo(e *Endpoint) bool { return p.HasSticky && p.Sticky == e.token }

// stickyOf finds endpoints in service by their tokens; nil without affinity.
func (c *Cluster) stickyOf(levels []level) map[uint64]*Endpoint {
	if c.config.Affinity == nil {
		return nil
	}
	found := make(map[uint64]*Endpoint, len(c.endpoints))
	for i := range levels {
		for place, w := range levels[i].weights {
			if w > 0 {
				found[c.endpoints[place].token] = c.endpoints[place]
			}
		}
	}
	return found
}
