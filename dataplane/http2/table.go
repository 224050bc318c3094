package http2

import "slices"

// table is the dynamic table of a decoder (RFC 7541 section 2.3.2). The text of
// its entries lies in one buffer, oldest first; what is left of it moves to the
// front when the buffer is full.
type table struct {
	max    int // what the peer has made of it, at most tableBytes
	size   int
	oldest int // entries oldest to next-1 are in the table
	next   int
	ring   []field // of at most tableSlots; their bytes are in text
	text   []byte
	start  int // of the oldest entry's bytes in text
}

func (t *table) entry(n int) *field { return &t.ring[n%tableSlots] }

// get is the entry with an index, counted from 0 for the newest, or nil.
func (t *table) get(index int) *field {
	if index >= t.next-t.oldest {
		return nil
	}
	return t.entry(t.next - 1 - index)
}

// resize takes the size that the peer gives the table.
func (t *table) resize(size int) {
	t.max = size
	t.evict(0)
}

// evict makes room for an entry of a size.
func (t *table) evict(room int) {
	for t.size+room > t.max && t.oldest < t.next {
		f := t.entry(t.oldest)
		t.size -= f.size()
		t.start += f.textLen()
		t.oldest++
	}
}

// clear takes every entry out.
func (t *table) clear() {
	t.oldest, t.size, t.start, t.text = t.next, 0, 0, t.text[:0]
}

// add puts a field into the table. One that is larger than the table empties it
// (section 4.4).
func (t *table) add(f *field) {
	size := f.size()
	if size > t.max {
		t.clear()
		return
	}
	t.evict(size)
	t.makeRoom(f.textLen())
	if len(t.ring) == t.next%tableSlots {
		t.ring = append(t.ring, field{})
	}
	entry := t.entry(t.next)
	*entry = *f
	entry.kept = false
	if !f.known {
		entry.name = t.hold(f.name)
	}
	entry.value = t.hold(f.value)
	t.next++
	t.size += size
}

// makeRoom sees to it that text has room for n bytes.
func (t *table) makeRoom(n int) {
	if len(t.text)+n <= cap(t.text) {
		return
	}
	old := t.text[t.start:]
	if need := 2 * (len(old) + n); need > cap(t.text) {
		t.text = slices.Grow([]byte(nil), need)
	}
	t.text = t.text[:copy(t.text[:cap(t.text)], old)]
	t.start = 0
	at := 0
	for i := t.oldest; i < t.next; i++ {
		f := t.entry(i)
		if !f.known {
			f.name, at = t.text[at:at+len(f.name)], at+len(f.name)
		}
		f.value, at = t.text[at:at+len(f.value)], at+len(f.value)
	}
}

func (t *table) hold(b []byte) []byte {
	start := len(t.text)
	t.text = append(t.text, b...)
	return t.text[start:]
}
