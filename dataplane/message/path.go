package message

import "bytes"

// PathError says why a path is refused.
type PathError struct {
	Offset int    // byte of the path
	Reason string // such as "bad percent escape"
}

// Error names the byte.
func (e *PathError) Error() string { return "path: " + e.Reason }

// pathByte is the class of a byte of a path.
type pathByte uint8

const (
	pathPlain   pathByte = iota // stands for itself, and needs its escape
	pathFree                    // unreserved: its escape is the same as itself (RFC 3986 section 2.3)
	pathSlash                   // ends a segment
	pathEscape                  // begins an escape
	pathControl                 // refused, escaped or not
	pathRefused                 // refused as a raw byte
)

var pathBytes = func() (table [256]pathByte) {
	for c := range table {
		switch {
		case c < 0x20 || c == 0x7f:
			table[c] = pathControl
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '-', c == '.', c == '_', c == '~':
			table[c] = pathFree
		case c == ' ' || c == '?' || c == '#' || c == '\\' || c >= 0x80:
			table[c] = pathRefused
		}
	}
	table['/'], table['%'] = pathSlash, pathEscape
	return table
}()

// NormalizePath returns the one form in which a path is matched and forwarded:
// it begins with "/"; dot segments, also written with %2e, are resolved as in
// RFC 3986 section 5.2.4, and stop at the root; escapes of unreserved bytes are
// decoded once (section 6.2.2.2) and other escapes, %2F and %5C among them, kept
// as they came; runs of slashes are merged if so asked, before dot segments are
// resolved. It is idempotent.
//
// A path that has that form already is returned itself. Otherwise the result is
// built in the storage of dst, which must not overlap with path and is grown as
// needed. A bad escape, a control byte (raw or escaped), white space, a
// backslash, "?", "#" or a byte above 0x7e give a *PathError.
func NormalizePath(dst, path []byte, mergeSlashes bool) ([]byte, error) {
	if isNormal(path, mergeSlashes) {
		return path, nil
	}
	n := normalizer{in: path, out: dst[:0], merge: mergeSlashes}
	for n.pos < len(path) || len(n.out) == 0 {
		if err := n.segment(); err != nil {
			return nil, err
		}
	}
	return n.out, nil
}

// isNormal is the quick test. It may say no of a path that is normal, such as
// one with a segment ".well-known" or an escape that is kept.
func isNormal(path []byte, mergeSlashes bool) bool {
	if len(path) == 0 || path[0] != '/' {
		return false
	}
	for i, c := range path {
		switch pathBytes[c] {
		case pathPlain, pathFree:
		case pathSlash:
			if i+1 < len(path) && (path[i+1] == '.' || path[i+1] == '/' && mergeSlashes) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// normalizer rewrites in to out, a segment at a time.
type normalizer struct {
	in    []byte
	pos   int
	out   []byte
	merge bool
}

// segment takes one "/" and what follows up to the next one. The slash belongs
// to the segment after it: taking away a segment takes away its slash, and the
// path that ends there gets its slash back.
func (n *normalizer) segment() error {
	if n.pos < len(n.in) && n.in[n.pos] == '/' {
		n.pos++
	}
	start := len(n.out)
	n.out = append(n.out, '/')
	if err := n.copySegment(); err != nil {
		return err
	}
	last := n.pos == len(n.in)
	switch name := n.out[start+1:]; {
	case len(name) == 0:
		if n.merge && !last {
			n.out = n.out[:start]
		}
		return nil
	case string(name) == ".":
		n.out = n.out[:start]
	case string(name) == "..":
		n.out = n.out[:max(0, bytes.LastIndexByte(n.out[:start], '/'))]
	default:
		return nil
	}
	if last {
		n.out = append(n.out, '/')
	}
	return nil
}

// copySegment appends bytes up to the next slash or the end.
func (n *normalizer) copySegment() error {
	for ; n.pos < len(n.in); n.pos++ {
		c := n.in[n.pos]
		switch pathBytes[c] {
		case pathPlain, pathFree:
			n.out = append(n.out, c)
		case pathSlash:
			return nil
		case pathEscape:
			if err := n.escape(); err != nil {
				return err
			}
		case pathControl:
			return &PathError{Offset: n.pos, Reason: "control byte"}
		default:
			return &PathError{Offset: n.pos, Reason: "byte that must be escaped"}
		}
	}
	return nil
}

// escape takes a percent escape, but for its last byte.
func (n *normalizer) escape() error {
	if n.pos+2 >= len(n.in) || !isHex(n.in[n.pos+1]) || !isHex(n.in[n.pos+2]) {
		return &PathError{Offset: n.pos, Reason: "bad percent escape"}
	}
	c := unhex(n.in[n.pos+1])<<4 | unhex(n.in[n.pos+2])
	switch pathBytes[c] {
	case pathFree:
		n.out = append(n.out, c)
	case pathControl:
		return &PathError{Offset: n.pos, Reason: "escaped control byte"}
	default:
		n.out = append(n.out, n.in[n.pos:n.pos+3]...)
	}
	n.pos += 2
	return nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
