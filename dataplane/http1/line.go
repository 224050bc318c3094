package http1

import (
	"github.com/headgate/headgate/dataplane/message"
)

// line is one field line (RFC 9112 section 5).
type line struct {
	name       []byte
	id         message.ID // of the name
	value      []byte     // without the white space around it
	underscore bool       // the name holds a "_"
	spaced     bool       // white space before the colon is left out, not at fault
	next       int        // where the next line begins
}

// parse reads the field line that begins at pos. It reports false, and no
// error, when buf ends before the line does.
func (l *line) parse(buf []byte, pos int) (bool, *Error) {
	after, err := l.parseName(buf, pos)
	if after == 0 {
		return false, err
	}
	pos = skipBlanks(buf, after)
	end := valueEnd(buf, pos)
	if end+1 >= len(buf) && (end == len(buf) || buf[end] == '\r') {
		return false, nil
	}
	if buf[end] != '\r' || buf[end+1] != '\n' {
		return false, badValue(buf, end)
	}
	l.next = end + 2
	for end > pos && (buf[end-1] == ' ' || buf[end-1] == '\t') {
		end--
	}
	l.value = buf[pos:end]
	return true, nil
}

// parseName reads a name that begins at pos, and returns where its colon ends, or 0
// when buf ends before.
func (l *line) parseName(buf []byte, pos int) (int, *Error) {
	if end := colon(buf, pos); end > pos {
		l.name, l.underscore = buf[pos:end], false
		if l.id = message.Intern(l.name); l.id != message.Other {
			return end + 1, nil // known names have no byte that a name may not have
		}
	}
	return l.parseUnknown(buf, pos)
}

// parseUnknown is parseName for names that are not known.
func (l *line) parseUnknown(buf []byte, pos int) (int, *Error) {
	start, seen := pos, uint8(0)
	for pos < len(buf) && classes[buf[pos]]&classToken != 0 {
		seen |= classes[buf[pos]]
		pos++
	}
	if pos == len(buf) {
		return 0, nil
	}
	l.name = buf[start:pos]
	if l.spaced && pos > start {
		if pos = skipBlanks(buf, pos); pos == len(buf) {
			return 0, nil
		}
	}
	if buf[pos] != ':' || pos == start {
		return 0, badName(buf, start, start+len(l.name))
	}
	l.id, l.underscore = message.Intern(l.name), seen&classUnderscore != 0
	return pos + 1, nil
}

// skipBlanks is where the white space that begins at pos ends.
func skipBlanks(buf []byte, pos int) int {
	for pos < len(buf) && (buf[pos] == ' ' || buf[pos] == '\t') {
		pos++
	}
	return pos
}

// badName says what is wrong with a name that ends at pos without a colon.
func badName(buf []byte, start, pos int) *Error {
	c := buf[pos]
	switch {
	case pos == start && (c == ' ' || c == '\t'):
		return bad(pos, "folded field line")
	case pos == start && c == ':':
		return bad(pos, "empty field name")
	case c == ' ' || c == '\t':
		return bad(pos, "white space after a field name")
	case c == '\r' && pos == start:
		return bad(pos, "CR without LF in place of a field line")
	case c == '\n' && pos == start:
		return bad(pos, "LF without CR in place of a field line")
	case c == '\r' || c == '\n':
		return bad(pos, "field line without a colon")
	}
	return bad(pos, "byte not allowed in a field name")
}

// badValue names the byte that ended a value other than by CRLF.
func badValue(buf []byte, pos int) *Error {
	switch buf[pos] {
	case '\r':
		return bad(pos, "CR without LF in a field value")
	case '\n':
		return bad(pos, "LF without CR in a field value")
	case 0:
		return bad(pos, "NUL in a field value")
	}
	return bad(pos, "control byte in a field value")
}

// parseFields appends the field lines from pos up to an empty line to fields,
// and returns where the empty line ends: 0, and no error, when buf ends before.
// Of a request, names with underscores are left out; they count all the same. Of a
// response, the white space before a colon is (RFC 9112 section 5.1).
func parseFields(buf []byte, pos, limit int, fields *message.Fields, request bool) (int, *Error) {
	l := line{spaced: !request}
	for count := 0; ; count++ {
		if end, ok := emptyLine(buf, pos); ok {
			return end, nil
		}
		if pos < len(buf) && count == limit {
			return 0, fault(431, pos, "too many field lines")
		}
		ok, err := l.parse(buf, pos)
		if !ok {
			return 0, err
		}
		if !l.underscore || !request {
			fields.AddID(l.id, l.name, l.value)
		}
		pos = l.next
	}
}

// emptyLine reports whether an empty line is at pos and where it ends: 0 when
// it may be one and buf ends too early to tell.
func emptyLine(buf []byte, pos int) (int, bool) {
	if pos >= len(buf) || buf[pos] != '\r' {
		return 0, false
	}
	if pos+1 == len(buf) {
		return 0, true
	}
	return pos + 2, buf[pos+1] == '\n'
}
