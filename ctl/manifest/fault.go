package manifest

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Fault is something that is wrong in a file.
type Fault struct {
	File      string
	Line      int    // from 1; 0: the file as a whole
	Column    int    // from 1, in characters
	Width     int    // characters to underline; 0 is 1
	FieldPath string // such as routes[3].forward.backends[0].cluster; may be empty
	Message   string // one line
	Hint      string // what is expected; may be empty
	Source    string // the line's text
	Warning   bool   // it can be applied all the same
}

// Error is the fault in one line.
func (f Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.position())
	if f.namesField() {
		b.WriteString(f.FieldPath + ": ")
	}
	b.WriteString(f.Message)
	if f.Hint != "" {
		b.WriteString(" (" + f.Hint + ")")
	}
	return b.String()
}

// namesField reports whether the path is to be shown before the message, which
// may name it already.
func (f Fault) namesField() bool {
	return f.FieldPath != "" && !strings.Contains(f.Message, f.FieldPath)
}

// position is "file:line:column: ", without what is not known.
func (f Fault) position() string {
	switch {
	case f.File == "":
		return ""
	case f.Line == 0:
		return f.File + ": "
	}
	return fmt.Sprintf("%s:%d:%d: ", f.File, f.Line, f.Column)
}

// Colours of a terminal.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[1;31m"
	yellow = "\x1b[1;33m"
	blue   = "\x1b[34m"
	plain  = "\x1b[0m"
)

// Write shows the fault as a compiler does: position and message, the line with
// the place underlined, and what is expected there.
func (f Fault) Write(w io.Writer, color bool) error {
	paint := func(code, s string) string {
		if !color || s == "" {
			return s
		}
		return code + s + plain
	}
	label := paint(red, "error: ")
	if f.Warning {
		label = paint(yellow, "warning: ")
	}
	var b strings.Builder
	b.WriteString(paint(bold, f.position()) + label)
	if f.namesField() {
		b.WriteString(paint(bold, f.FieldPath) + ": ")
	}
	b.WriteString(f.Message + "\n")
	if f.Source != "" && f.Line > 0 {
		text, marks := f.snippet()
		number := fmt.Sprintf("%5d", f.Line)
		b.WriteString(paint(blue, number+" | ") + text + "\n")
		b.WriteString(paint(blue, "      | ") + paint(red, marks) + "\n")
	}
	if f.Hint != "" {
		b.WriteString(paint(blue, "      = ") + f.Hint + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Of a long line, what is around the place is shown.
const (
	maxSnippet = 100
	leadIn     = 40
)

// snippet is the line and the carets under it.
func (f Fault) snippet() (text, marks string) {
	line := []rune(f.Source)
	at := min(max(f.Column-1, 0), len(line))
	ellipsis := ""
	if len(line) > maxSnippet && at > leadIn {
		line, at, ellipsis = line[at-leadIn:], leadIn, "..."
	}
	tail := ""
	if len(line) > maxSnippet {
		line, tail = line[:maxSnippet], "..."
	}
	width := min(max(f.Width, 1), max(len(line)-at, 1))
	indent := strings.Repeat(" ", len(ellipsis)+at)
	return ellipsis + printable(line) + tail, indent + strings.Repeat("^", width)
}

// printable gives each character one column and lets none steer a terminal.
func printable(line []rune) string {
	out := make([]rune, len(line))
	for i, r := range line {
		switch {
		case r == '\t':
			out[i] = ' '
		case !unicode.IsPrint(r):
			out[i] = unicode.ReplacementChar
		default:
			out[i] = r
		}
	}
	return string(out)
}
