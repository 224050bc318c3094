package proxy

import (
	"bytes"
	"strconv"
	"time"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/upstream"
)

// describe tells the balancer what it goes by: a hash of a part of the request,
// and the endpoint that a cookie leads back to.
func (x *exchange) describe() {
	x.pick = upstream.Pick{}
	if key := x.cluster.Key(); key.Source != snapshot.HashNothing {
		value, ok := x.hashed(key)
		x.pick.Hash, x.pick.HasHash = upstream.Hash(value), ok
	}
	if a := x.cluster.Config().Affinity; a != nil {
		if value, ok := cookie(&x.req.Fields, a.Cookie); ok {
			x.pick.Sticky, x.pick.HasSticky = upstream.ParseToken(value)
		}
	}
}

// hashed is the part of the request that a key names, and whether it has it.
func (x *exchange) hashed(key snapshot.HashKey) ([]byte, bool) {
	switch key.Source {
	case snapshot.HashHeader:
		return x.req.Fields.Lookup([]byte(key.Name))
	case snapshot.HashCookie:
		return cookie(&x.req.Fields, key.Name)
	case snapshot.HashQueryParam:
		return queryParam(x.req.Query, key.Name)
	case snapshot.HashClientAddress:
		address := x.client.As16()
		x.out = append(x.blank(), address[:]...)
		return x.out, x.client.IsValid()
	case snapshot.HashPath:
		return x.path, true
	}
	return nil, false
}

// cookie is the value of the first cookie of a name (RFC 6265 section 4.2.1).
func cookie(fields *message.Fields, name string) ([]byte, bool) {
	for line := range fields.Values(message.Cookie) {
		if value, ok := pair(line, name, ';'); ok {
			return value, true
		}
	}
	return nil, false
}

// queryParam is the value of the first parameter of a name, as it is written.
func queryParam(query []byte, name string) ([]byte, bool) { return pair(query, name, '&') }

// pair is the value of the first name=value of a name in a list.
func pair(list []byte, name string, separator byte) ([]byte, bool) {
	for len(list) > 0 {
		item := list
		if i := bytes.IndexByte(list, separator); i >= 0 {
			item, list = list[:i], list[i+1:]
		} else {
			list = nil
		}
		item = message.TrimSpace(item)
		if len(item) > len(name) && item[len(name)] == '=' && string(item[:len(name)]) == name {
			return item[len(name)+1:], true
		}
	}
	return nil, false
}

// bindsClient reports whether the answer sets the affinity cookie.
func (x *exchange) bindsClient() bool {
	ep := x.attempt.endpoint
	return ep != nil && x.cluster.Config().Affinity != nil && !x.pick.BoundTo(ep)
}

// appendAffinity writes the value of the Set-Cookie that leads the client back.
func (x *exchange) appendAffinity(dst []byte) []byte {
	a := x.cluster.Config().Affinity
	dst = append(append(dst, a.Cookie...), '=')
	dst = x.attempt.endpoint.AppendToken(dst)
	dst = append(dst, "; Path=/; HttpOnly; SameSite=Lax"...)
	if x.req.HTTPS {
		dst = append(dst, "; Secure"...)
	}
	if a.TTL > 0 {
		dst = append(dst, "; Max-Age="...)
		dst = strconv.AppendInt(dst, int64(a.TTL/time.Second), 10)
	}
	return dst
}
