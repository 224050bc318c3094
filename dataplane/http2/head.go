package http2

import (
	"math/bits"
	"sync"

	"github.com/headgate/headgate/dataplane/message"
)

// head is one decoded header block with the bytes of its fields. Field names that
// are known point to knownNames, everything else into store.
type head struct {
	store  []byte
	fields message.Fields
	seen   uint8 // bits of pseudo
	end    bool  // of a response: nothing follows it

	size   int // as in Options.MaxHeaderBytes
	count  int
	cookie int // 1 + index of the first crumb in fields
	status int // of a response
	body   message.Body

	pseudo    [pseudoCount][]byte
	cookies   []byte // crumbs, joined (RFC 9113 section 8.2.3)
	malformed string // what was wrong first
	oversize  string // which bound it passed, and that what follows was left out
}

const (
	headBytes = 1 << 10 // what store begins with
	keptBytes = 8 << 10 // the most that is kept of it
)

var headPool = sync.Pool{New: func() any { return &head{store: make([]byte, 0, headBytes)} }}

func getHead() *head { return headPool.Get().(*head) }

// putHead takes a head back that nothing points to any more.
func putHead(h *head) {
	if h != nil && h.reset() {
		headPool.Put(h)
	}
}

// reset forgets everything but the storage, and reports whether that is small
// enough to be kept.
func (h *head) reset() bool {
	if cap(h.store)+cap(h.cookies) > keptBytes {
		return false
	}
	h.store, h.cookies = h.store[:0], h.cookies[:0]
	h.fields.Reset()
	for seen := h.seen; seen != 0; seen &= seen - 1 {
		h.pseudo[bits.TrailingZeros8(seen)] = nil
	}
	h.seen, h.end = 0, false
	h.size, h.count, h.cookie, h.status = 0, 0, 0, 0
	h.body, h.malformed, h.oversize = message.Body{}, "", ""
	return true
}

// maxHeads is how many heads a connection keeps for use.
const maxHeads = 64

// getHead is an empty head, and rather one that was in use just now. mu is held.
func (c *conn) getHead() *head {
	n := len(c.heads)
	if n == 0 {
		return getHead()
	}
	h := c.heads[n-1]
	c.heads[n-1] = nil
	c.heads = c.heads[:n-1]
	return h
}

// putHead takes a head back that nothing points to any more. mu is held.
func (c *conn) putHead(h *head) {
	switch {
	case h == nil:
	case len(c.heads) >= maxHeads:
		putHead(h)
	case h.reset():
		c.heads = append(c.heads, h)
	}
}

// dropHeads lets go of the heads that are kept. mu is held.
func (c *conn) dropHeads() {
	for _, h := range c.heads {
		headPool.Put(h)
	}
	c.heads = nil
}

// blame notes the first fault.
func (h *head) blame(reason string) {
	if h.malformed == "" {
		h.malformed = reason
	}
}

func (h *head) has(p pseudo) bool { return h.seen&(1<<p) != 0 }

// keep copies bytes into store. What was kept before stays where it is when store
// grows.
func (h *head) keep(b []byte) []byte {
	start := len(h.store)
	h.store = append(h.store, b...)
	return h.store[start:len(h.store):len(h.store)]
}

// add takes a field, and reports whether it wants more.
func (h *head) add(f *field, o *Options) bool {
	h.size += f.size()
	switch {
	case h.size > o.MaxHeaderBytes:
		h.oversize = "head too large"
		return false
	case f.flaw != flawless:
		h.blame(flawTexts[f.flaw])
	case f.pseudo != pseudoCount:
		h.addPseudo(f)
	default:
		return h.addField(f, o)
	}
	return true
}

func (h *head) addPseudo(f *field) {
	switch {
	case h.has(f.pseudo):
		h.blame("pseudo-header field given twice")
	case h.count > 0:
		h.blame("pseudo-header field after another field")
	default:
		h.seen |= 1 << f.pseudo
		h.pseudo[f.pseudo] = h.keepValue(f)
	}
}

// keepValue is the value of a field in a place where it stays.
func (h *head) keepValue(f *field) []byte {
	if f.kept {
		return f.value
	}
	return h.keep(f.value)
}

func (h *head) addField(f *field, o *Options) bool {
	h.count++
	if f.id == message.Cookie {
		h.addCookie(f.value)
		return true
	}
	if h.fields.Len() >= o.MaxHeaders {
		h.oversize = "too many fields"
		return false
	}
	name := f.name
	if !f.known && !f.kept {
		name = h.keep(name)
	}
	h.fields.AddID(f.id, name, h.keepValue(f))
	return true
}

// addCookie joins the crumbs of a cookie, which the rest of the world wants in
// one field. They count as one.
func (h *head) addCookie(crumb []byte) {
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
