package telemetry

import "bytes"

// parent is a parsed traceparent.
type parent struct {
	traceID [16]byte
	spanID  [8]byte
	flags   byte // only those that are known: flagSampled, flagRandom
}

// The trace flags of W3C Trace Context Level 2, section 3.2.2.5.
const (
	flagSampled = 0x01
	flagRandom  = 0x02
)

// parentLen is the length of a version 00 traceparent: 2+1+32+1+16+1+2.
const parentLen = 55

// parseTraceparent reads a traceparent value (W3C Trace Context Level 2, section
// 3.2). Version 00 has exactly parentLen bytes; an unknown higher version is
// read as far as 00 goes, if "-" or nothing follows; ff is invalid. All
// hexadecimal digits are lower case, and neither ID is all zero.
func parseTraceparent(s []byte) (p parent, ok bool) {
	if len(s) < parentLen || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return p, false
	}
	var version, flags [1]byte
	if !unhex(version[:], s[:2]) || !validTail(version[0], s[parentLen:]) {
		return p, false
	}
	if !unhex(p.traceID[:], s[3:35]) || !unhex(p.spanID[:], s[36:52]) || !unhex(flags[:], s[53:55]) {
		return p, false
	}
	p.flags = flags[0] & (flagSampled | flagRandom)
	return p, p.traceID != [16]byte{} && p.spanID != [8]byte{}
}

// validTail reports whether what follows the flags is allowed in the version.
func validTail(version byte, tail []byte) bool {
	switch version {
	case 0x00:
		return len(tail) == 0
	case 0xff:
		return false
	}
	return len(tail) == 0 || tail[0] == '-'
}

// unhex decodes lower-case hexadecimal; dst is half as long as s.
func unhex(dst, s []byte) bool {
	for i := range dst {
		hi, lo := digit(s[2*i]), digit(s[2*i+1])
		if hi|lo > 0x0f {
			return false
		}
		dst[i] = hi<<4 | lo
	}
	return true
}

// digit is the value of a lower-case hexadecimal digit, or 0xff.
func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

const hexDigits = "0123456789abcdef"

// appendHex appends b in lower-case hexadecimal.
func appendHex(dst, b []byte) []byte {
	for _, c := range b {
		dst = append(dst, hexDigits[c>>4], hexDigits[c&0x0f])
	}
	return dst
}

// Detached is the trace for what may outlive the exchange: it keeps no bytes of
// its head, but a copy of those that its spans want.
func (t *Trace) Detached() Trace {
	d := *t
	d.state = nil
	if t.record {
		d.state = bytes.Clone(t.state)
	}
	return d
}

// AppendTraceparent appends the traceparent of the current attempt, in version
// 00 whatever came in (section 4.3). Its parent is the attempt's client span, which
// has an ID of its own whether it is recorded or not. Only to be used if
// Trace.Rewrite is set.
func (x *Exchange) AppendTraceparent(dst []byte) []byte {
	t := &x.Trace
	span := &t.SpanID
	if a := x.last(); a != nil {
		span = &a.SpanID
	}
	dst = append(dst, "00-"...)
	dst = appendHex(dst, t.ID[:])
	dst = append(dst, '-')
	dst = appendHex(dst, span[:])
	return append(dst, '-', hexDigits[t.flags>>4], hexDigits[t.flags&0x0f])
}
