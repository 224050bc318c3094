package http2

import (
	"unsafe"

	"github.com/headgate/headgate/dataplane/message"
)

// Section is a field section, a head or trailers, on its way from a decoder to
// a message. HTTP/3 has the rules of HTTP/2 for what makes one malformed (RFC 9114
// section 4) and is held to them by this.
type Section struct {
	head *head
	o    *Options
}

// NewSection begins a section. Of the options the bounds of heads and
// ExtendedConnect count, and no default stands for what is zero. Release must be
// called.
func NewSection(o *Options) Section { return Section{head: getHead(), o: o} }

// Add takes the next field, and reports whether more are wanted: none are once a
// bound is passed, which is found as a Fault.
func (s *Section) Add(name, value string) bool {
	f := field{name: bytesOf(name), value: bytesOf(value)}
	f.judgeName()
	f.judgeValue()
	return s.head.add(&f, s.o)
}

// bytesOf is the bytes of a string, to be read only.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Oversize notes that the section is larger than its bound, and what follows was
// left out.
func (s *Section) Oversize() { s.head.oversize = "head too large" }

// Request makes req of a head; end says that nothing follows it. A reason says
// why the head is malformed, which breaks the stream. A fault is to be answered;
// then req holds what was understood. req is valid until Release.
func (s *Section) Request(req *message.Request, end bool) (malformed string, fault *Fault) {
	s.head.finish()
	s.head.end = end
	return s.head.request(req, s.o)
}

// Trailers are the fields of a trailer section, valid until Release. A reason
// says why it is malformed.
func (s *Section) Trailers() (fields *message.Fields, malformed string) {
	s.head.finish()
	malformed = s.head.checkTrailers(false)
	return &s.head.fields, malformed
}

// Release lets go of the section and of what was made of it. A second call does
// nothing.
func (s *Section) Release() {
	putHead(s.head)
	s.head = nil
}

// Carried reports whether a field may be sent on a stream: those that belong to a
// connection may not (RFC 9113 section 8.2.2, RFC 9114 section 4.2).
func Carried(f *message.Field) bool {
	switch {
	case connectionSpecific[f.ID] || f.ID == message.HTTP2Settings:
		return false
	case f.ID == message.TE:
		return message.EqualToken(f.Value, "trailers")
	}
	return true
}
