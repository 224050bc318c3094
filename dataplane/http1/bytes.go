package http1

import (
	"encoding/binary"
	"math/bits"

	"github.com/headgate/headgate/dataplane/message"
)

// Classes of bytes, as bits of one table.
const (
	classToken      uint8 = 1 << iota // tchar (RFC 9110 section 5.6.2)
	classUnderscore                   // "_", also a tchar
	classPath                         // may stand in a target before "?"
	classQuery                        // may stand in a target after "?"
	classHost                         // may stand in a registered name
	classHex
	classReason // HTAB, SP, VCHAR, obs-text
	classDigit
)

var classes = func() (table [256]uint8) {
	for c := range 256 {
		if c >= 0x20 && c != 0x7f || c == '\t' {
			table[c] |= classReason
		}
		if 0x21 <= c && c <= 0x7e && c != '#' {
			table[c] |= classPath | classQuery
		}
	}
	mark := func(chars string, class uint8) {
		for i := range len(chars) {
			table[chars[i]] |= class
		}
	}
	const digits = "0123456789"
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	mark(digits+letters+"!#$%&'*+-.^_`|~", classToken)
	mark("_", classUnderscore)
	mark(digits+letters+"-._~", classHost)
	mark(digits+"abcdefABCDEF", classHex)
	mark(digits, classDigit)
	table['\\'] &^= classPath
	table['?'] &^= classPath
	return table
}()

func is(c, class uint8) bool { return classes[c]&class != 0 }

// fits reports whether c may stand where shape has its byte: a "d" in shape
// stands for any digit, and not for itself.
func fits(c, shape byte) bool {
	if shape == 'd' {
		return is(c, classDigit)
	}
	return c == shape
}

// Eight equal bytes as a word.
const (
	ones  uint64 = 0x0101010101010101
	highs uint64 = 0x8080808080808080
)

// valueEnd is the index at or after pos of the first byte that cannot be part
// of a field value: a control byte other than HTAB (RFC 9110 section 5.5). It is
// len(buf) where there is none. It looks at eight bytes at a time: the lowest
// flag of each of the two tests is exact.
func valueEnd(buf []byte, pos int) int {
	for pos+8 <= len(buf) {
		word := binary.LittleEndian.Uint64(buf[pos:])
		del := word ^ 0x7f*ones
		flags := ((word-0x20*ones)&^word | (del-ones)&^del) & highs
		if flags == 0 {
			pos += 8
			continue
		}
		pos += bits.TrailingZeros64(flags) / 8
		if buf[pos] != '\t' {
			return pos
		}
		pos++
	}
	for pos < len(buf) && is(buf[pos], classReason) {
		pos++
	}
	return pos
}

// colon is the index of the first colon at or after pos, or -1 if it is further away
// than a known name is long, or buf ends soon.
func colon(buf []byte, pos int) int {
	for end := pos + message.MaxKnown; pos < end && pos+8 <= len(buf); pos += 8 {
		word := binary.LittleEndian.Uint64(buf[pos:]) ^ ':'*ones
		if flags := (word - ones) &^ word & highs; flags != 0 {
			return pos + bits.TrailingZeros64(flags)/8
		}
	}
	return -1
}

// wordEnd is the index at or after pos of the first byte that is not of a
// class, at most limit.
func wordEnd(buf []byte, pos, limit int, class uint8) int {
	limit = min(limit, len(buf))
	for pos < limit && classes[buf[pos]]&class != 0 {
		pos++
	}
	return pos
}
