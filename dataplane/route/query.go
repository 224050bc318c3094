package route

import "bytes"

// Query parameters are read as HTML forms write them (WHATWG URL section 5.1):
// split at "&", "+" is a space, %XX a byte. A "%" that no two hex digits follow
// stands for itself.

// lookupQuery returns the first value of a name, still encoded, and whether
// there is one. A parameter without "=" has an empty value.
func lookupQuery(query []byte, name string) ([]byte, bool) {
	for len(query) > 0 {
		var pair []byte
		pair, query, _ = bytes.Cut(query, []byte("&"))
		if len(pair) == 0 {
			continue
		}
		key, value, _ := bytes.Cut(pair, []byte("="))
		if equalDecoded(key, name) {
			return value, true
		}
	}
	return nil, false
}

// equalDecoded compares encoded text with plain text, without decoding it into
// memory.
func equalDecoded(raw []byte, want string) bool {
	if len(raw) < len(want) {
		return false
	}
	n := 0
	for i := 0; i < len(raw); n++ {
		c, size := decodeByte(raw[i:])
		if n == len(want) || want[n] != c {
			return false
		}
		i += size
	}
	return n == len(want)
}

// encoded reports whether decoding would change the text.
func encoded(raw []byte) bool {
	return bytes.IndexByte(raw, '%') >= 0 || bytes.IndexByte(raw, '+') >= 0
}

// decode allocates; only regexes on encoded values need it.
func decode(raw []byte) []byte {
	plain := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		c, size := decodeByte(raw)
		plain = append(plain, c)
		raw = raw[size:]
	}
	return plain
}

// decodeByte returns the first byte that raw stands for and how many bytes of
// raw that takes. raw is not empty.
func decodeByte(raw []byte) (c byte, size int) {
	switch {
	case raw[0] == '+':
		return ' ', 1
	case raw[0] == '%' && len(raw) >= 3:
		high, low := unhex(raw[1]), unhex(raw[2])
		if high < 16 && low < 16 {
			return high<<4 | low, 3
		}
	}
	return raw[0], 1
}

// unhex returns 16 for what is no hex digit.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}
