package message

import "encoding/binary"

// Interning runs once for each field of each request. A name is hashed from its
// length, first and last byte into a table without collisions among the known
// names, and compared with the one candidate there in at most three words.

// pattern is a known name as words: a name of the same length is the known one
// when each of its words, with the case bits set, equals word. Case bits stand
// at letters only, so that the comparison is exact for any bytes.
type pattern struct {
	word     [3]uint64
	caseBits [3]uint64
	length   int
	id       ID
}

// MaxKnown is how many bytes a known name has at most; words holds no more.
const MaxKnown = 24

var patterns = func() (table [patternSlots]pattern) {
	for id := ID(1); id < lastID; id++ {
		name := []byte(names[id])
		bits := make([]byte, len(name))
		for i, c := range name {
			if 'a' <= c && c <= 'z' {
				bits[i] = 0x20
			}
		}
		p := pattern{length: len(name), id: id}
		p.word[0], p.word[1], p.word[2] = words(name)
		p.caseBits[0], p.caseBits[1], p.caseBits[2] = words(bits)
		slot := &table[patternSlot(name)]
		if slot.id != Other || len(name) > MaxKnown {
			panic("message: no slot for the known name " + names[id])
		}
		*slot = p
	}
	return table
}()

const patternSlots = 256

// patternSlot is the slot of a name of one byte or more; the multipliers were
// found by search.
func patternSlot(name []byte) uint8 {
	first, last := name[0]|0x20, name[len(name)-1]|0x20
	return uint8(len(name))*mulLength + first*mulFirst + last*mulLast
}

const (
	mulLength = 1
	mulFirst  = 6
	mulLast   = 18
)

// words covers a name of 1 to MaxKnown bytes with three words that may overlap;
// of names of one length, equal words are equal names.
func words(name []byte) (a, b, c uint64) {
	n := len(name)
	if n < 8 {
		a, b = shortWords(name)
		return a, b, 0
	}
	if n > 16 {
		c = binary.LittleEndian.Uint64(name[8:])
	}
	return binary.LittleEndian.Uint64(name), binary.LittleEndian.Uint64(name[n-8:]), c
}

// shortWords is words for 1 to 7 bytes.
func shortWords(name []byte) (a, b uint64) {
	n := len(name)
	if n >= 4 {
		return uint64(binary.LittleEndian.Uint32(name)), uint64(binary.LittleEndian.Uint32(name[n-4:]))
	}
	return uint64(name[0]) | uint64(name[n/2])<<8, uint64(name[n-1])
}

// Intern returns the ID of a name in any case, or Other.
func Intern(name []byte) ID {
	n := len(name)
	if n == 0 {
		return Other
	}
	p := &patterns[patternSlot(name)]
	if p.length != n {
		return Other
	}
	// As words does, but no further than the first that differs.
	if n >= 8 {
		if binary.LittleEndian.Uint64(name)|p.caseBits[0] != p.word[0] {
			return Other
		}
		if last := binary.LittleEndian.Uint64(name[n-8:]); last|p.caseBits[1] != p.word[1] {
			return Other
		}
		if n > 16 && binary.LittleEndian.Uint64(name[8:])|p.caseBits[2] != p.word[2] {
			return Other
		}
		return p.id
	}
	if a, b := shortWords(name); a|p.caseBits[0] != p.word[0] || b|p.caseBits[1] != p.word[1] {
		return Other
	}
	return p.id
}
