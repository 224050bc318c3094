package manifest

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"buf.build/go/protoyaml"
	"go.yaml.in/yaml/v3"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// document is one document of a file.
type document struct {
	file     string
	before   int // lines of the file before it
	lines    [][]byte
	root     *yaml.Node // a mapping
	snapshot *configv1.Snapshot
	base     map[string]int // of each list, how many elements documents before it have
}

// newDocument reads a document and finds every fault of its form. It is nil,
// without a fault, if there is nothing in it.
func newDocument(file string, p piece) (*document, []Fault) {
	d := &document{file: file, before: p.before, lines: bytes.Split(p.data, []byte("\n")), snapshot: &configv1.Snapshot{}}
	var parsed yaml.Node
	if err := yaml.Unmarshal(p.data, &parsed); err != nil {
		return nil, []Fault{d.syntax(err)}
	}
	if parsed.Kind == 0 || len(parsed.Content) == 0 || isNull(parsed.Content[0]) {
		return nil, nil
	}
	d.root = parsed.Content[0]
	shape := shape{document: d}
	shape.message(d.root, d.snapshot.ProtoReflect().Descriptor(), "")
	if len(shape.faults) > 0 {
		return nil, shape.faults
	}
	if err := protoyaml.Unmarshal(p.data, d.snapshot); err != nil {
		return nil, d.conversion(err)
	}
	return d, nil
}

// syntaxLine is how the YAML parser begins its errors.
var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax is the fault of a text that is no YAML.
func (d *document) syntax(err error) Fault {
	message := err.Error()
	at := syntaxLine.FindStringSubmatch(message)
	f := Fault{File: d.file, Message: "is not YAML: " + message}
	if at == nil {
		return f
	}
	f.Message = "is not YAML: " + strings.TrimPrefix(message, at[0])
	line, err := strconv.Atoi(at[1])
	if err != nil {
		return f
	}
	f.Line, f.Column = d.before+line, 1
	f.Source = d.line(line)
	if indent := len(f.Source) - len(strings.TrimLeft(f.Source, " \t")); indent < len(f.Source) {
		f.Column = indent + 1
	}
	if strings.Contains(f.Source, "\t") {
		f.Hint = "indent with spaces: YAML does not allow tabs there"
	}
	return f
}

// line is the text of a line of the document, counted from 1.
func (d *document) line(n int) string {
	if n < 1 || n > len(d.lines) {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimRight(string(d.lines[n-1]), "\r"), "\uFFFD")
}

// fault is a fault at a node.
func (d *document) fault(at *yaml.Node, path, message, hint string) Fault {
	f := Fault{File: d.file, FieldPath: path, Message: message, Hint: hint}
	if at != nil && at.Line > 0 {
		f.Line, f.Column, f.Width = d.before+at.Line, at.Column, width(at)
		f.Source = d.line(at.Line)
	}
	return f
}

// width is how many characters a scalar has in the file, as far as that is
// known; 1 for anything else.
func width(n *yaml.Node) int {
	w := len([]rune(n.Value))
	switch {
	case n.Kind != yaml.ScalarNode || w == 0 || strings.Contains(n.Value, "\n"):
		return 1
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return 1
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return w + 2 + strings.Count(n.Value, `\`) + strings.Count(n.Value, `"`)
	case n.Style&yaml.SingleQuotedStyle != 0:
		return w + 2 + strings.Count(n.Value, "'")
	}
	return w
}

// conversionError is how protoyaml begins each of its errors.
var conversionError = regexp.MustCompile(`^(?:[^\n]*?:)?(\d+):(\d+) ([^\n]*)`)

// conversion turns the errors of protoyaml into faults. They name the line and
// column of the value, by which its field is found again.
func (d *document) conversion(err error) []Fault {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	var out []Fault
	for _, e := range list {
		parts := conversionError.FindStringSubmatch(e.Error())
		if parts == nil {
			out = append(out, Fault{File: d.file, Message: e.Error()})
			continue
		}
		line, _ := strconv.Atoi(parts[1])
		column, _ := strconv.Atoi(parts[2])
		out = append(out, d.valueFault(line, column, parts[3]))
	}
	return out
}

// valueFault is the fault of a value that its field cannot have.
func (d *document) valueFault(line, column int, message string) Fault {
	s := shape{document: d, line: line, column: column}
	s.message(d.root, d.snapshot.ProtoReflect().Descriptor(), "")
	if s.found == nil {
		return Fault{File: d.file, Line: d.before + line, Column: column, Message: message, Source: d.line(line)}
	}
	expected := expects(s.foundField)
	if expected == "" {
		return d.fault(s.found, s.foundPath, message, "")
	}
	return d.fault(s.found, s.foundPath, fmt.Sprintf("%s is not %s", shown(s.found), expected), example(s.foundField))
}
