package http2

import "encoding/binary"

// The Huffman code of RFC 7541 appendix B. It is canonical: among codes of one
// length, and from one length to the next, they count up, so that the lengths say
// all of it.

// huffmanBits is how long the code of each byte is. That of EOS, which never
// appears in a string (section 5.2), has 30 bits and is the last.
var huffmanBits = [256]uint8{
	13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
	28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
	6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
	5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
	13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
	15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
	6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
	20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
	24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
	22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
	21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
	26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
	19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
	20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
	26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
}

const (
	shortestCode = 5  // bits of a code
	longestCode  = 30 // bits of a code
	// quickBits is how many bits find a byte at one look: all that is common
	// in fields has codes that are no longer.
	quickBits = 10
)

// huffmanCode is the code as both directions want it.
type huffmanCode struct {
	codes [256]uint32 // in the low huffmanBits bits
	quick [1 << quickBits]huffmanSymbol
	// Of the codes of a length, aligned to 32 bits: where those of the next
	// length begin, the first one, and where its byte is in order.
	limit, first [longestCode + 1]uint32
	rank         [longestCode + 1]uint8
	order        [256]uint8 // bytes by their codes
}

// huffmanSymbol is a byte and the length of its code; 0 bits: longer than quick.
type huffmanSymbol struct{ symbol, bits uint8 }

var huffman = makeHuffman()

func makeHuffman() *huffmanCode {
	h, code, n := &huffmanCode{}, uint32(0), 0
	for bits := shortestCode; bits <= longestCode; bits++ {
		h.first[bits], h.rank[bits] = code<<(32-bits), uint8(n)
		for symbol, length := range huffmanBits {
			if int(length) != bits {
				continue
			}
			h.codes[symbol] = code
			h.order[n] = uint8(symbol)
			if bits <= quickBits {
				for i := range 1 << (quickBits - bits) {
					h.quick[int(code)<<(quickBits-bits)+i] = huffmanSymbol{uint8(symbol), uint8(bits)}
				}
			}
			code++
			n++
		}
		h.limit[bits] = code << (32 - bits)
		code <<= 1
	}
	return h
}

// appendHuffman appends what coded stands for. It reports false if that is no
// string: it holds EOS, or ends with more than 7 bits of padding or with others
// than the first of EOS (section 5.2).
func appendHuffman(dst, coded []byte) ([]byte, bool) {
	var have uint64 // the next bits, from the top
	bits := 0
	for {
		if len(coded) >= 4 && bits <= 32 {
			have |= uint64(binary.BigEndian.Uint32(coded)) << (32 - bits)
			coded = coded[4:]
			bits += 32
		}
		for len(coded) > 0 && len(coded) < 4 && bits <= 56 {
			have |= uint64(coded[0]) << (56 - bits)
			coded = coded[1:]
			bits += 8
		}
		s := huffman.quick[have>>(64-quickBits)]
		if s.bits == 0 {
			s = huffman.long(uint32(have >> 32))
		}
		if n := int(s.bits); n == 0 || n > bits {
			// What is left is padding, of ones.
			return dst, bits < 8 && have == ^uint64(0)<<(64-bits)
		}
		dst = append(dst, s.symbol)
		have <<= s.bits
		bits -= int(s.bits)
	}
}

// long finds a code longer than quickBits at the top of some bits. That of EOS is
// none.
func (h *huffmanCode) long(top uint32) huffmanSymbol {
	for bits := quickBits + 1; bits <= longestCode; bits++ {
		if top < h.limit[bits] {
			at := h.rank[bits] + uint8((top-h.first[bits])>>(32-bits))
			return huffmanSymbol{h.order[at], uint8(bits)}
		}
	}
	return huffmanSymbol{}
}

// huffmanLen is how many bytes a string takes when it is coded.
func huffmanLen(s []byte) int {
	n := 0
	for _, c := range s {
		n += int(huffmanBits[c])
	}
	return (n + 7) / 8
}

// appendHuffmanCoded appends a string, coded.
func appendHuffmanCoded(dst, s []byte) []byte {
	var have uint64 // bits not written yet, at the bottom
	bits := 0
	for _, c := range s {
		n := int(huffmanBits[c])
		have = have<<n | uint64(huffman.codes[c])
		for bits += n; bits >= 8; {
			bits -= 8
			dst = append(dst, byte(have>>bits))
		}
	}
	if bits > 0 {
		dst = append(dst, byte(have<<(8-bits))|byte(0xff)>>bits)
	}
	return dst
}
