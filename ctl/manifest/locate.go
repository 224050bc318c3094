package manifest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// Locate says where the field with a path such as routes[3].forward.backends
// stands, or what of it there is. The line is 0 if no part of it is anywhere.
// Lines and columns count from 1, columns in characters.
func (m *Manifest) Locate(path string) (file string, line, column int) {
	f := m.at(path, "", "")
	return f.File, f.Line, f.Column
}

// Faults shows violations where their fields stand, in the order of the files.
func (m *Manifest) Faults(violations []snapshot.Violation) []Fault {
	out := make([]Fault, 0, len(violations))
	for _, v := range violations {
		f := m.at(v.Path, v.Message, "")
		f.Warning = v.Warning
		out = append(out, f)
	}
	rank := map[string]int{}
	for i, d := range m.documents {
		if _, ok := rank[d.file]; !ok {
			rank[d.file] = i
		}
	}
	slices.SortStableFunc(out, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(rank[a.File], rank[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return out
}

// at is a fault at a path.
func (m *Manifest) at(path, message, hint string) Fault {
	name, index, rest := cutStep(path)
	for _, d := range m.documents {
		key, value := child(d.root, name)
		if key == nil {
			continue
		}
		local := index - d.base[name]
		if index >= 0 && (local < 0 || value.Kind != yaml.SequenceNode || local >= len(value.Content)) {
			continue
		}
		return d.fault(descend(key, value, local, index >= 0, rest), path, message, hint)
	}
	f := Fault{FieldPath: path, Message: message, Hint: hint}
	if len(m.documents) > 0 {
		f.File = m.documents[0].file
	}
	return f
}

// descend follows a path as far as there are nodes for it.
func descend(key, value *yaml.Node, index int, listed bool, rest string) *yaml.Node {
	if listed {
		if value.Kind != yaml.SequenceNode || index < 0 || index >= len(value.Content) {
			return pointed(key, value)
		}
		key, value = value.Content[index], value.Content[index]
	}
	if rest == "" {
		return pointed(key, value)
	}
	name, next, after := cutStep(rest)
	k, v := child(value, name)
	if k == nil {
		return pointed(key, value)
	}
	return descend(k, v, next, next >= 0, after)
}

// pointed is what to point at for a field: its value if that is on one line,
// else its key.
func pointed(key, value *yaml.Node) *yaml.Node {
	if value.Kind == yaml.ScalarNode && value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 || value.Style&yaml.FlowStyle != 0 {
		return value
	}
	return key
}

// child finds a field of a mapping.
func child(n *yaml.Node, name string) (key, value *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// cutStep takes the first step off a path; index is -1 if it has none.
func cutStep(path string) (name string, index int, rest string) {
	step, rest, _ := strings.Cut(path, ".")
	name, number, listed := strings.Cut(step, "[")
	index = -1
	if n, err := strconv.Atoi(strings.TrimSuffix(number, "]")); listed && err == nil {
		index = n
	}
	return name, index, rest
}
