package http2

import "iter"

// streams are those of a connection that are open. Their numbers are given out in
// order and most are closed again soon, so that nearly each has the slot to itself
// that its number names; whom another is in the way of is in a map.
type streams struct {
	slots []*Stream // a power of two of them, or none
	more  map[uint32]*Stream
	n     int
}

// The slots of a connection with one stream, and the most that are made.
const (
	minSlots = 8
	maxSlots = 512
)

func (t *streams) len() int { return t.n }

func (t *streams) slot(id uint32) **Stream { return &t.slots[id>>1&uint32(len(t.slots)-1)] }

// get is the stream with a number, or nil.
func (t *streams) get(id uint32) *Stream {
	if t.n == 0 {
		return nil
	}
	if s := *t.slot(id); s != nil && s.id == id {
		return s
	}
	if len(t.more) == 0 {
		return nil
	}
	return t.more[id]
}

// add takes a stream whose number is not there yet.
func (t *streams) add(s *Stream) {
	if t.n >= len(t.slots) && len(t.slots) < maxSlots {
		t.grow()
	}
	t.n++
	t.put(s)
}

func (t *streams) put(s *Stream) {
	if at := t.slot(s.id); *at == nil {
		*at = s
		return
	}
	if t.more == nil {
		t.more = make(map[uint32]*Stream)
	}
	t.more[s.id] = s
}

// remove takes a stream out, which is there.
func (t *streams) remove(s *Stream) {
	t.n--
	if at := t.slot(s.id); *at == s {
		*at = nil
		return
	}
	delete(t.more, s.id)
}

// grow doubles the slots.
func (t *streams) grow() {
	old := *t
	*t = streams{slots: make([]*Stream, max(minSlots, 2*len(old.slots))), n: old.n}
	for s := range old.all() {
		t.put(s)
	}
}

// all are the streams, in no order. Those that are seen may be removed meanwhile,
// but none may be added.
func (t *streams) all() iter.Seq[*Stream] {
	return func(yield func(*Stream) bool) {
		for _, s := range t.slots {
			if s != nil && !yield(s) {
				return
			}
		}
		for _, s := range t.more {
			if !yield(s) {
				return
			}
		}
	}
}
