package certificate

import (
	"crypto/tls"
	"slices"
	"strings"
)

// choice finds the certificate for a name. It is never changed.
type choice struct {
	names    map[string][]*tls.Certificate // by name, in lower case; "*.example.com" for wildcards
	fallback []*tls.Certificate            // the first, and those that share a name with it
}

// newChoice is over a list that is not empty.
func newChoice(list []*tls.Certificate) *choice {
	c := &choice{names: map[string][]*tls.Certificate{}}
	for _, pair := range list {
		for _, name := range pair.Leaf.DNSNames {
			name = strings.ToLower(name)
			if !slices.Contains(c.names[name], pair) {
				c.names[name] = append(c.names[name], pair)
			}
		}
	}
	c.fallback = list[:1:1]
	for _, pair := range list[1:] {
		if shareName(list[0], pair) {
			c.fallback = append(c.fallback, pair)
		}
	}
	return c
}

func shareName(a, b *tls.Certificate) bool {
	return slices.ContainsFunc(a.Leaf.DNSNames, func(name string) bool {
		return slices.ContainsFunc(b.Leaf.DNSNames, func(other string) bool { return strings.EqualFold(name, other) })
	})
}

// pick is the certificate for a handshake: one with the name that is asked for,
// else one with a wildcard for it (which stands for one label, RFC 6125 section
// 6.4.3), else the fallback. Of several, an ECDSA and an RSA one say, the first
// that the client can verify is taken.
func (c *choice) pick(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(hello.ServerName)
	if found := c.names[name]; len(found) > 0 {
		return suited(found, hello), nil
	}
	if _, parent, ok := strings.Cut(name, "."); ok {
		if found := c.names["*."+parent]; len(found) > 0 {
			return suited(found, hello), nil
		}
	}
	return suited(c.fallback, hello), nil
}

// suited is the first of several that the client can verify, or the first.
func suited(list []*tls.Certificate, hello *tls.ClientHelloInfo) *tls.Certificate {
	if len(list) == 1 {
		return list[0]
	}
	unnamed := *hello
	unnamed.ServerName = "" // the name has been looked at
	for _, pair := range list {
		if unnamed.SupportsCertificate(pair) == nil {
			return pair
		}
	}
	return list[0]
}
