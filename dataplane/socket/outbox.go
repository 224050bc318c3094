package socket

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Outbox is what the connections of one shard are about to write. Whoever has
// something to write puts it in and lets others run, who do the same; the first
// of them to come back hands all of it to the kernel. So a peer that sleeps is
// woken once for many writes, where it would sleep again between two of them,
// and to wake somebody is much of what a small write costs.
type Outbox struct {
	mu sync.Mutex
	// guarded by mu
	last *parcel // that was put in; each knows the one before
	n    int
	_    [40]byte // cores share no line
}

const (
	// outboxFull is how many writes wait at most.
	outboxFull = 256
	// parcelBytes is how long a write is at most that waits. What is longer keeps
	// its peer busy by itself.
	parcelBytes = SmallBuffer
)

// parcel is what one connection is about to write: one at a time, and who put it
// in an outbox waits until it has been written.
type parcel struct {
	fd    int
	bytes []byte
	n     int // written
	err   error
	next  *parcel // in the outbox
	done  atomic.Bool
}

// post writes what there is room for, as sendNow does. The descriptor must not go
// away meanwhile. others reports whether it was written while others ran, so that
// there may be an answer by now.
func (o *Outbox) post(p *parcel, fd int, bytes []byte) (n int, others bool, err error) {
	p.fd, p.bytes = fd, bytes
	p.done.Store(false)
	if o.put(p) {
		runtime.Gosched()
		others = p.done.Load()
	}
	for !p.done.Load() {
		if !o.flush() {
			runtime.Gosched() // somebody else has taken it
		}
	}
	p.bytes = nil
	return p.n, others, p.err
}

// put puts a parcel in, and reports whether there is room for more.
func (o *Outbox) put(p *parcel) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.next, o.last = o.last, p
	o.n++
	return o.n < outboxFull
}

// flush writes all that waits, and reports whether there was anything.
func (o *Outbox) flush() bool {
	o.mu.Lock()
	last := o.last
	o.last, o.n = nil, 0
	o.mu.Unlock()
	for p := inOrder(last); p != nil; {
		next := p.next // once it is done, its owner may put it in again
		p.n, p.err = sendNow(p.fd, p.bytes)
		p.done.Store(true)
		p = next
	}
	return last != nil
}

// inOrder turns a list around, so that who came first is first.
func inOrder(last *parcel) (first *parcel) {
	for p := last; p != nil; {
		before := p.next
		p.next, first = first, p
		p = before
	}
	return first
}
