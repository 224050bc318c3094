package proxy

import (
	"strings"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/snapshot"
)

// edits are the header operations of a route, prepared for a walk over the
// fields of a head: what must go is looked up, what must come is written.
type edits struct {
	drop   []dropped       // names that are removed or set
	lines  []byte          // the field lines to add, ready to copy
	fields []message.Field // the same as fields, with names in lower case
}

type dropped struct {
	id   message.ID
	name []byte
}

func newEdits(ops *snapshot.HeaderOps) edits {
	var e edits
	for _, name := range ops.Remove {
		e.dropName(name)
	}
	for _, h := range ops.Set {
		e.dropName(h.Name)
		e.add(h)
	}
	for _, h := range ops.Add {
		e.add(h)
	}
	return e
}

func (e *edits) add(h snapshot.Header) {
	e.lines = appendField(e.lines, h.Name, h.Value)
	name := []byte(strings.ToLower(h.Name))
	e.fields = append(e.fields, message.Field{ID: message.Intern(name), Name: name, Value: []byte(h.Value)})
}

func (e *edits) dropName(name string) {
	e.drop = append(e.drop, dropped{id: message.Intern([]byte(name)), name: []byte(name)})
}

// drops reports whether a field line is to be left out.
func (e *edits) drops(f *message.Field) bool {
	for i := range e.drop {
		d := &e.drop[i]
		if d.id == f.ID && (d.id != message.Other || message.EqualFold(d.name, f.Name)) {
			return true
		}
	}
	return false
}

// dropsID is drops for a known name.
func (e *edits) dropsID(id message.ID) bool {
	for i := range e.drop {
		if e.drop[i].id == id {
			return true
		}
	}
	return false
}

func appendField[N, V []byte | string](dst []byte, name N, value V) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}
