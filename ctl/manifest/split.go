package manifest

import (
	"bytes"
	"strings"
)

// piece is the text of one document.
type piece struct {
	data   []byte
	before int // lines of the file before it
}

// split cuts a file into its documents. "---" and "..." at the start of a line,
// with white space or nothing after them, are markers wherever they stand, even
// inside of scalars (YAML 1.2.2 section 9.1.2), so that lines are all it takes.
func split(data []byte) []piece {
	var out []piece
	start, line, startLine := 0, 0, 0
	cut := func(at, next int) {
		out = append(out, piece{data: data[start:at], before: startLine})
		start, startLine = next, line
	}
	for at := 0; at < len(data); line++ {
		next := lineEnd(data, at)
		switch text := data[at:next]; {
		case isMarker(text, "---") && !onlyDirectives(data[start:at]):
			cut(at, at)
		case isMarker(text, "..."):
			line++
			cut(at, next)
			line--
		}
		at = next
	}
	return append(out, piece{data: data[start:], before: startLine})
}

// lineEnd is the index after the newline that ends the line at a position.
func lineEnd(data []byte, at int) int {
	if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(data)
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0)
}

// onlyDirectives reports whether lines hold directives, comments and blanks
// only: what stands before the first marker of a document and belongs to it.
func onlyDirectives(data []byte) bool {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	for line := range bytes.Lines(data) {
		text := bytes.TrimSpace(line)
		if len(text) > 0 && text[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}
