package http2

import (
	"bytes"
	"hash/maphash"

	"github.com/headgate/headgate/dataplane/message"
)

const (
	// tableBytes is the most that our side of the compression uses, whatever the
	// peer would allow: it is the default of RFC 9113 section 6.5.2.
	tableBytes = 4096
	// tableSlots holds every entry: each counts for more than 32 bytes.
	tableSlots = 128
	// maxIndexed is the longest name and value that is worth a place.
	maxIndexed = 1024
)

// encoder writes header blocks (RFC 7541). A pair is put into the dynamic table
// when it is seen for the second time: what is different each time is written as
// it is, and displaces nothing. It allocates nothing once its entries have grown.
// Credentials are never put there (section 7.1.3): requests of different clients
// share a connection.
type encoder struct {
	seed     maphash.Seed
	max      int // bytes that the table may hold
	size     int
	lowest   int  // what max went down to since the last block
	resized  bool // the peer must be told of max with the next block
	oldest   uint64
	next     uint64          // entries oldest to next-1 are in the table
	entries  []entry         // a ring of at most tableSlots
	byHash   [hashes]uint64  // the entry that was added last for a hash
	sighted  [hashes]uint32  // the hash that was seen last
	recent   [recents]uint64 // the entry that was used last for a name
	misses   [recents]uint8  // values in a row that were not in the table
	nameRoom []byte
}

// recents is how many names have a place for the entry that was used last: those
// that are interned, and the pseudo-header fields behind them. A value that is the
// same as last time is found without a hash.
const recents = 128 + int(pseudoCount)

const hashes = 128

// entry is where entry n is, if it is in the table.
func (e *encoder) entry(n uint64) *entry { return &e.entries[n%tableSlots] }

type entry struct {
	hash uint64
	text []byte // name and value
	name int    // bytes of the name
}

func (e *entry) size() int { return len(e.text) + 32 }

func newEncoder() *encoder {
	return &encoder{seed: maphash.MakeSeed(), max: tableBytes, lowest: tableBytes, next: tableSlots, oldest: tableSlots}
}

// setMax takes the size that the peer allows the table.
func (e *encoder) setMax(size uint32) {
	e.max = int(min(size, tableBytes))
	e.lowest = min(e.lowest, e.max)
	e.resized = true
	e.evict(0)
}

// evict makes room for an entry of a size.
func (e *encoder) evict(room int) {
	for e.size+room > e.max && e.oldest < e.next {
		e.size -= e.entry(e.oldest).size()
		e.oldest++
	}
}

// begin begins a header block. A table that was to be smaller for a while is
// emptied: RFC 7541 section 4.2 asks for its lowest size, but there are decoders
// that take a second change only when nothing is left in the table.
func (e *encoder) begin(dst []byte) []byte {
	if !e.resized {
		return dst
	}
	if e.lowest < e.max {
		e.oldest, e.size = e.next, 0
		dst = append(dst, 0x20)
	}
	e.resized, e.lowest = false, e.max
	return appendInt(dst, 0x20, 5, e.max)
}

// field appends a field line; the name may be in any case.
func (e *encoder) field(dst []byte, id message.ID, name, value []byte) []byte {
	if id != message.Other {
		return e.pair(dst, int(id), knownStatic[id], knownNames[id], value, secret[id])
	}
	e.nameRoom = appendLower(e.nameRoom[:0], name)
	return e.pair(dst, 0, 0, e.nameRoom, value, false)
}

// pseudo appends a pseudo-header field.
func (e *encoder) pseudo(dst []byte, p pseudo, static uint8, value []byte) []byte {
	return e.pair(dst, recents-int(pseudoCount)+int(p), static, pseudoNames[p], value, false)
}

var secret = [256]bool{
	message.Authorization: true, message.ProxyAuthorization: true,
	message.Cookie: true, message.SetCookie: true,
}

// pair appends a name in lower case and a value. place is that of the name in
// recent, or 0; static is the index of the name in the static table if it is
// known, or 0.
func (e *encoder) pair(dst []byte, place int, static uint8, name, value []byte, never bool) []byte {
	if never {
		return e.literal(dst, 0x10, 4, static, name, value)
	}
	if n := e.recent[place]; n >= e.oldest && e.entry(n).same(name, value) {
		e.misses[place] = 0
		return appendInt(dst, 0x80, 7, staticLast+int(e.next-n))
	}
	if len(name)+len(value) > maxIndexed || len(name)+len(value)+32 > e.max || e.isFickle(place) {
		return e.literal(dst, 0, 4, static, name, value)
	}
	hash := e.hash(static, name, value)
	slot := hash % uint64(len(e.byHash))
	if n := e.byHash[slot]; n >= e.oldest && e.entry(n).hash == hash && e.entry(n).same(name, value) {
		e.recent[place], e.misses[place] = n, 0
		return appendInt(dst, 0x80, 7, staticLast+int(e.next-n))
	}
	if tag := uint32(hash>>32) | 1; e.sighted[slot] != tag {
		e.sighted[slot] = tag
		return e.literal(dst, 0, 4, static, name, value)
	}
	dst = e.literalCoded(dst, static, name, value)
	e.add(hash, name, value)
	e.recent[place] = e.next - 1
	return dst
}

// isFickle reports whether the values of a name have been new for so long that this
// one is not looked for: but one of 16 is.
func (e *encoder) isFickle(place int) bool {
	const long, sampled = 32, 16
	if place == 0 {
		return false
	}
	if e.misses[place]++; e.misses[place] < long {
		return false
	}
	if e.misses[place] == long+sampled {
		e.misses[place] = long
		return false
	}
	return true
}

func (e *encoder) hash(static uint8, name, value []byte) uint64 {
	hash := maphash.Bytes(e.seed, value)
	if static != 0 {
		return hash ^ uint64(static)*0x9e3779b97f4a7c15
	}
	return hash ^ maphash.Bytes(e.seed, name)*0x9e3779b97f4a7c15
}

func (e *entry) same(name, value []byte) bool {
	return len(e.text) == len(name)+len(value) && bytes.Equal(e.text[e.name:], value) && bytes.Equal(e.text[:e.name], name)
}

// add puts a pair into the table.
func (e *encoder) add(hash uint64, name, value []byte) {
	n := len(name) + len(value) + 32
	e.evict(n)
	if len(e.entries) == int(e.next%tableSlots) {
		e.entries = append(e.entries, entry{})
	}
	slot := e.entry(e.next)
	slot.hash, slot.name = hash, len(name)
	slot.text = append(append(slot.text[:0], name...), value...)
	e.byHash[hash%uint64(len(e.byHash))] = e.next
	e.next++
	e.size += n
}

// literal appends a pair that is not put into the table. It is not Huffman
// coded: that costs both sides more than the bytes it saves.
func (e *encoder) literal(dst []byte, first byte, bits int, static uint8, name, value []byte) []byte {
	if static == 0 {
		static = staticNames[string(name)]
	}
	dst = appendInt(dst, first, bits, int(static))
	if static == 0 {
		dst = appendPlain(dst, name)
	}
	return appendPlain(dst, value)
}

// literalCoded appends a pair that is put into the table.
func (e *encoder) literalCoded(dst []byte, static uint8, name, value []byte) []byte {
	if static == 0 {
		static = staticNames[string(name)]
	}
	dst = appendInt(dst, 0x40, 6, int(static))
	if static == 0 {
		dst = appendCoded(dst, name)
	}
	return appendCoded(dst, value)
}

// appendInt appends an integer with a prefix of some bits (RFC 7541 section
// 5.1); first holds the bits before it.
func appendInt(dst []byte, first byte, bits, n int) []byte {
	limit := 1<<bits - 1
	if n < limit {
		return append(dst, first|byte(n))
	}
	dst = append(dst, first|byte(limit))
	for n -= limit; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}

// appendPlain appends a string as it is (RFC 7541 section 5.2).
func appendPlain(dst, s []byte) []byte {
	return append(appendInt(dst, 0, 7, len(s)), s...)
}

// appendCoded appends a string in the shorter of its forms.
func appendCoded(dst, s []byte) []byte {
	n := huffmanLen(s)
	if n >= len(s) {
		return appendPlain(dst, s)
	}
	return appendHuffmanCoded(appendInt(dst, 0x80, 7, n), s)
}

func appendLower(dst, name []byte) []byte {
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
