package http2

import (
	"sync"
	"unsafe"

	"golang.org/x/net/http2/hpack"

	"github.com/headgate/headgate/dataplane/message"
)

// pseudo is a pseudo-header field (RFC 9113 section 8.3).
type pseudo uint8

const (
	pseudoMethod pseudo = iota
	pseudoScheme
	pseudoAuthority
	pseudoPath
	pseudoProtocol // RFC 8441 section 4
	pseudoStatus
	pseudoCount
)

// head is one decoded header block with the bytes of its fields. Field names that
// are known point to knownNames, everything else into store.
type head struct {
	store   []byte
	cookies []byte // crumbs, joined (RFC 9113 section 8.2.3)
	fields  message.Fields
	pseudo  [pseudoCount][]byte
	seen    uint8 // bits of pseudo

	size      int // as in Options.MaxHeaderBytes
	count     int
	cookie    int    // 1 + index of the first crumb in fields
	malformed string // what was wrong first
	oversize  string // which bound it passed, and that what follows was left out

	// Of a response.
	status int
	body   message.Body
	end    bool // nothing follows it
}

const (
	headBytes = 1 << 10 // what store begins with
	keptBytes = 8 << 10 // the most that is kept of it
)

var headPool = sync.Pool{New: func() any { return &head{store: make([]byte, 0, headBytes)} }}

func getHead() *head { return headPool.Get().(*head) }

// putHead takes a head back that nothing points to any more.
func putHead(h *head) {
	if h == nil || cap(h.store)+cap(h.cookies) > keptBytes {
		return
	}
	fields := h.fields
	fields.Reset()
	*h = head{store: h.store[:0], cookies: h.cookies[:0], fields: fields}
	headPool.Put(h)
}

// blame notes the first fault.
func (h *head) blame(reason string) {
	if h.malformed == "" {
		h.malformed = reason
	}
}

func (h *head) has(p pseudo) bool { return h.seen&(1<<p) != 0 }

// keep copies a string into store. What was kept before stays where it is when
// store grows.
func (h *head) keep(s string) []byte {
	start := len(h.store)
	h.store = append(h.store, s...)
	return h.store[start:len(h.store):len(h.store)]
}

// add takes a field off the decoder, and reports whether it wants more.
func (h *head) add(f *hpack.HeaderField, o *Options) bool {
	h.size += len(f.Name) + len(f.Value) + 32
	if h.size > o.MaxHeaderBytes {
		h.oversize = "head too large"
		return false
	}
	switch {
	case !validValue(f.Value):
		h.blame("byte or white space not allowed in a field value")
	case len(f.Name) > 0 && f.Name[0] == ':':
		h.addPseudo(f)
	default:
		return h.addField(f, o)
	}
	return true
}

// validValue checks a value (RFC 9113 section 8.2.1).
func validValue(v string) bool {
	if len(v) == 0 {
		return true
	}
	first, last := v[0], v[len(v)-1]
	return first != ' ' && first != '\t' && last != ' ' && last != '\t' && all(v, classValue)
}

func (h *head) addPseudo(f *hpack.HeaderField) {
	p := pseudoOf(f.Name)
	switch {
	case p == pseudoCount:
		h.blame("unknown pseudo-header field")
	case h.has(p):
		h.blame("pseudo-header field given twice")
	case h.count > 0:
		h.blame("pseudo-header field after another field")
	default:
		h.seen |= 1 << p
		h.pseudo[p] = h.keep(f.Value)
	}
}

func pseudoOf(name string) pseudo {
	switch name {
	case ":method":
		return pseudoMethod
	case ":scheme":
		return pseudoScheme
	case ":authority":
		return pseudoAuthority
	case ":path":
		return pseudoPath
	case ":protocol":
		return pseudoProtocol
	case ":status":
		return pseudoStatus
	}
	return pseudoCount
}

func (h *head) addField(f *hpack.HeaderField, o *Options) bool {
	h.count++
	id := message.Intern(bytesOf(f.Name))
	switch {
	case len(f.Name) == 0 || !all(f.Name, className):
		h.blame("byte not allowed in a field name")
		return true
	case connectionSpecific[id] || id == message.TE && f.Value != "trailers":
		h.blame("connection-specific field") // RFC 9113 section 8.2.2
		return true
	case id == message.Cookie:
		h.addCookie(f.Value)
		return true
	}
	if h.fields.Len() >= o.MaxHeaders {
		h.oversize = "too many fields"
		return false
	}
	if id != message.Other {
		h.fields.AddID(id, knownNames[id], h.keep(f.Value))
		return true
	}
	name := h.keep(f.Name)
	h.fields.AddID(id, name, h.keep(f.Value))
	return true
}

var connectionSpecific = [256]bool{
	message.Connection: true, message.KeepAlive: true, message.ProxyConnection: true,
	message.TransferEncoding: true, message.Upgrade: true,
}

// addCookie joins the crumbs of a cookie, which the rest of the world wants in
// one field. They count as one.
func (h *head) addCookie(crumb string) {
	if h.cookie == 0 {
		h.fields.AddID(message.Cookie, knownNames[message.Cookie], nil)
		h.cookie = h.fields.Len()
	} else {
		h.cookies = append(h.cookies, "; "...)
	}
	h.cookies = append(h.cookies, crumb...)
}

// finish ends the block.
func (h *head) finish() {
	if h.cookie > 0 {
		h.fields.All()[h.cookie-1].Value = h.cookies
	}
}

// lengths reads Content-Length; n is -1 if there is none. The reason says what is
// wrong: several that are equal are made one only if they may be.
func (h *head) lengths(several bool) (n int64, reason string) {
	n = -1
	if !h.fields.Has(message.ContentLength) {
		return n, ""
	}
	var first []byte
	for value := range h.fields.Values(message.ContentLength) {
		for more := true; more; {
			var number []byte
			number, value, more = message.CutMember(value)
			length, ok := parseLength(number)
			switch {
			case !ok:
				return -1, "Content-Length that is not a number"
			case n >= 0 && (!several || length != n):
				return -1, "more than one Content-Length"
			}
			n, first = length, number
		}
	}
	h.fields.Set(knownNames[message.ContentLength], first)
	return n, ""
}

// bytesOf is the bytes of a string, to be read only.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
