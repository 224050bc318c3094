package http2

import (
	"errors"
	"math"
)

// decoder reads header blocks (RFC 7541). Whatever a field is, and however large,
// its table stays in step with the peer's: only what cannot be understood ends
// the connection.
type decoder struct {
	table  table
	limit  int    // the longest string that is looked at
	rest   []byte // the beginning of a field whose end has not come
	begun  bool   // the block has had a field: the table keeps its size
	silent bool   // the head wants no more
	skip   skipping
}

// skipping is a field that is too large to be looked at, while it is passed over.
type skipping struct {
	left  int  // bytes of the string to come
	value bool // that is the name; a value follows
}

// largerThanTable is how many bytes of a string do not fit into the table, even
// if each of its characters has the longest code.
const largerThanTable = tableBytes*longestCode/8 + 1

func newDecoder(o *Options) *decoder {
	return &decoder{table: table{max: tableBytes}, limit: max(2*o.MaxHeaderBytes, largerThanTable)}
}

var (
	errPartial = errors.New("http2: the field is not whole")
	errCoding  = connError(CompressionError, "bad header block")
	errLate    = connError(CompressionError, "size of the table changed behind a field")
)

// begin begins a block.
func (d *decoder) begin() {
	d.begun, d.silent, d.skip = false, false, skipping{}
	d.rest = d.rest[:0]
}

// write decodes a piece of a block into a head; last says that it is the last.
// The error is errCoding or errLate.
func (d *decoder) write(h *head, p []byte, last bool, o *Options) error {
	if len(d.rest) > 0 {
		d.rest = append(d.rest, p...)
		p = d.rest
	}
	for len(p) > 0 {
		n, err := d.next(h, p, o)
		if err == errPartial && !last {
			d.rest = append(d.rest[:0], p...)
			return nil
		}
		if err != nil {
			return whole(err)
		}
		p = p[n:]
	}
	d.rest = d.rest[:0]
	if last && d.skip != (skipping{}) {
		return errCoding
	}
	return nil
}

// whole is the error of a field that had to be whole.
func whole(err error) error {
	if err == errPartial {
		return errCoding
	}
	return err
}

// next decodes what p begins with, and returns how many bytes that took. The
// error is errPartial if p does not hold all of it.
func (d *decoder) next(h *head, p []byte, o *Options) (int, error) {
	switch {
	case d.skip.left > 0:
		n := min(d.skip.left, len(p))
		d.skip.left -= n
		return n, nil
	case d.skip.value:
		length, n, err := readInt(p, 7)
		if err == nil {
			d.skip = skipping{left: length}
		}
		return n, err
	case p[0]&0x80 != 0:
		return d.indexed(h, p, o)
	case p[0]&0x40 != 0:
		return d.literal(h, p, 6, o)
	case p[0]&0x20 != 0:
		return d.resize(p)
	}
	return d.literal(h, p, 4, o)
}

// indexed decodes a field that a table holds (section 6.1).
func (d *decoder) indexed(h *head, p []byte, o *Options) (int, error) {
	index, n, err := readInt(p, 7)
	if err != nil {
		return 0, err
	}
	f := d.entry(index)
	if f == nil {
		return 0, errCoding
	}
	d.begun = true
	d.silent = d.silent || !h.add(f, o)
	return n, nil
}

// entry is the field with an index in both tables (section 2.3.3), or nil.
func (d *decoder) entry(index int) *field {
	switch {
	case index == 0:
		return nil
	case index <= staticLast:
		return &staticFields[index]
	}
	return d.table.get(index - staticLast - 1)
}

// resize takes the size of the table, which stands before any field (section
// 4.2).
func (d *decoder) resize(p []byte) (int, error) {
	size, n, err := readInt(p, 5)
	switch {
	case err != nil:
		return 0, err
	case d.begun:
		return 0, errLate
	case size > tableBytes:
		return 0, errCoding
	}
	d.table.resize(size)
	return n, nil
}

// literal decodes a field whose value is given, and maybe its name (section
// 6.2). With a prefix of 6 bits it is for the table, with 4 it is not.
func (d *decoder) literal(h *head, p []byte, bits int, o *Options) (int, error) {
	mark := len(h.store)
	f := field{kept: true}
	n, err := d.name(h, &f, p, bits)
	if err == nil && d.skip.left == 0 {
		start, used := len(h.store), n
		n, err = d.text(h, p[used:], false)
		f.value = h.store[start:len(h.store):len(h.store)]
		n += used
	}
	d.begun = true
	switch {
	case err != nil:
	case d.skip.left > 0:
		// It is larger than the table too, and so empties it (section 4.4).
		h.oversize, d.silent = "head too large", true
		if bits == 6 {
			d.table.clear()
		}
	default:
		f.judgeValue()
		d.silent = d.silent || !h.add(&f, o)
		if bits == 6 {
			d.table.add(&f)
		}
	}
	if err != nil || d.silent {
		h.store = h.store[:mark]
	}
	return n, err
}

// name decodes the name of a literal field: one that a table holds, or a string.
func (d *decoder) name(h *head, f *field, p []byte, bits int) (int, error) {
	index, n, err := readInt(p, bits)
	if err != nil {
		return 0, err
	}
	if index == 0 {
		start := len(h.store)
		used, err := d.text(h, p[n:], true)
		f.name = h.store[start:len(h.store):len(h.store)]
		f.judgeName()
		return n + used, err
	}
	named := d.entry(index)
	if named == nil {
		return 0, errCoding
	}
	f.name, f.id, f.pseudo, f.known, f.nameFlaw = named.name, named.id, named.pseudo, named.known, named.nameFlaw
	if !f.known {
		f.name = h.keep(f.name) // the entry may be gone before this field is put into the table
	}
	return n, nil
}

// text decodes a string (section 5.2) behind what h.store holds. One that is too
// long to be looked at is to be skipped then.
func (d *decoder) text(h *head, p []byte, name bool) (int, error) {
	length, n, err := readInt(p, 7)
	switch {
	case err != nil:
		return 0, err
	case length > d.limit:
		d.skip = skipping{left: length, value: name}
		return n, nil
	case length > len(p)-n:
		return 0, errPartial
	}
	s := p[n : n+length]
	if p[0]&0x80 == 0 {
		h.store = append(h.store, s...)
		return n + length, nil
	}
	store, ok := appendHuffman(h.store, s)
	h.store = store
	if !ok {
		return 0, errCoding
	}
	return n + length, nil
}

// maxIntBytes is how many bytes may follow the prefix of an integer: more would
// not fit.
const maxIntBytes = 9

// readInt reads an integer with a prefix of some bits (section 5.1).
func readInt(p []byte, bits int) (value, n int, err error) {
	if len(p) == 0 {
		return 0, 0, errPartial
	}
	limit := 1<<bits - 1
	if value = int(p[0]) & limit; value < limit {
		return value, 1, nil
	}
	large := uint64(limit)
	for i, b := range p[1:] {
		large += uint64(b&0x7f) << (7 * i)
		if i == maxIntBytes || large > math.MaxInt {
			return 0, 0, errCoding
		}
		if b < 0x80 {
			return int(large), i + 2, nil
		}
	}
	return 0, 0, errPartial
}
