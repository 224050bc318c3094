package message

import (
	"bytes"
	"iter"
	"slices"
)

// Field is one field line. Name is as received, Value without the white space
// around it.
type Field struct {
	Name  []byte
	Value []byte
	ID    ID
}

// Underscore reports whether the name holds an underscore. Gateways that turn
// dashes into underscores cannot tell X_Auth_User from X-Auth-User, so such a
// field of a request is not forwarded.
func (f *Field) Underscore() bool { return bytes.IndexByte(f.Name, '_') >= 0 }

// is reports whether the field has a name, given with its ID.
func (f *Field) is(id ID, name []byte) bool {
	return f.ID == id && (id != Other || EqualFold(f.Name, name))
}

// Fields is an ordered list of field lines, looked up without regard to case.
// The zero value is empty and ready for use.
type Fields struct {
	list []Field
	seen [2]uint64 // one bit for each known ID that is in list
}

// Reset empties the list and keeps its storage.
func (f *Fields) Reset() {
	f.list = f.list[:0]
	f.seen = [2]uint64{}
}

// All is the list in order; the caller must not keep it.
func (f *Fields) All() []Field { return f.list }

// Len is the number of field lines.
func (f *Fields) Len() int { return len(f.list) }

// Add appends a field line.
func (f *Fields) Add(name, value []byte) { f.AddID(Intern(name), name, value) }

// AddID appends a field line whose name has been interned already.
func (f *Fields) AddID(id ID, name, value []byte) {
	n := len(f.list)
	if n == cap(f.list) {
		f.list = slices.Grow(f.list, max(n, 16))
	}
	f.list = f.list[:n+1]
	field := &f.list[n]
	field.Name, field.Value, field.ID = name, value, id
	f.seen[id>>6&1] |= 1 << (id & 63)
}

// Has reports whether a known field is present.
func (f *Fields) Has(id ID) bool { return f.seen[id>>6&1]&(1<<(id&63)) != 0 }

// Get returns the value of the first field line with a known name, or nil.
func (f *Fields) Get(id ID) []byte {
	if !f.Has(id) {
		return nil
	}
	for i := range f.list {
		if f.list[i].ID == id {
			return f.list[i].Value
		}
	}
	return nil
}

// Lookup returns the value of the first field line with a name, and whether
// there is one.
func (f *Fields) Lookup(name []byte) ([]byte, bool) {
	id := Intern(name)
	if !f.Has(id) {
		return nil, false
	}
	for i := range f.list {
		if f.list[i].is(id, name) {
			return f.list[i].Value, true
		}
	}
	return nil, false
}

// Values iterates over the values of the lines with a known name, in order.
func (f *Fields) Values(id ID) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !f.Has(id) {
			return
		}
		for i := range f.list {
			if f.list[i].ID == id && !yield(f.list[i].Value) {
				return
			}
		}
	}
}

// Count is the number of field lines with a known name.
func (f *Fields) Count(id ID) int {
	n := 0
	for range f.Values(id) {
		n++
	}
	return n
}

// ListContains reports whether one of the lines with a known name, read as a
// comma-separated list, has a member, in any case (RFC 9110 section 5.6.1).
func (f *Fields) ListContains(id ID, member string) bool {
	for value := range f.Values(id) {
		if ListContains(value, member) {
			return true
		}
	}
	return false
}

// Set gives a field one line with one value: in the place of the first line
// with its name, or else at the end.
func (f *Fields) Set(name, value []byte) {
	id := Intern(name)
	for i := range f.list {
		if f.list[i].is(id, name) {
			f.list[i].Value = value
			f.remove(i+1, id, name)
			return
		}
	}
	f.AddID(id, name, value)
}

// Del removes every line with a name and reports whether there was one.
func (f *Fields) Del(name []byte) bool {
	id := Intern(name)
	if !f.Has(id) {
		return false
	}
	removed := f.remove(0, id, name)
	if id != Other {
		f.seen[id>>6&1] &^= 1 << (id & 63)
	}
	return removed
}

// DelID is Del for a known name.
func (f *Fields) DelID(id ID) bool {
	if id == Other || !f.Has(id) {
		return false
	}
	f.seen[id>>6&1] &^= 1 << (id & 63)
	return f.remove(0, id, nil)
}

// remove deletes the lines with a name from index start on.
func (f *Fields) remove(start int, id ID, name []byte) bool {
	kept := f.list[:start]
	for _, field := range f.list[start:] {
		if !field.is(id, name) {
			kept = append(kept, field)
		}
	}
	removed := len(kept) < len(f.list)
	f.list = kept
	return removed
}

// ConnectionNames reports whether a Connection field names the field with an ID
// and name, so that it must not be forwarded (RFC 9110 section 7.6.1). It is
// never true of a protected name: a client cannot name away what a proxy sets.
func (f *Fields) ConnectionNames(id ID, name []byte) bool {
	if id.Protected() {
		return false
	}
	for value := range f.Values(Connection) {
		for member := range List(value) {
			if EqualFold(member, name) {
				return true
			}
		}
	}
	return false
}

// EqualFold reports whether two field names are the same without regard to
// ASCII case (RFC 9110 section 5.1).
func EqualFold(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

// EqualToken reports whether a token is, in any ASCII case, the same as one
// that is given in lower case.
func EqualToken(token []byte, lowered string) bool {
	return len(token) == len(lowered) && equalLower(token, lowered)
}

// equalLower compares a name in any case with one of the same length in lower
// case.
func equalLower(name []byte, lowered string) bool {
	for i := range len(lowered) {
		if lower(name[i]) != lowered[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
