package socket

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// outbox is what connections are about to write. Whoever has something to write
// puts it in and lets others run, who do the same; the first of them to come back
// hands it all to the kernel. So a peer that sleeps is woken once for many
// writes, where it would sleep again between two of them, and to wake somebody is
// much of what a small write costs.
type outbox struct {
	mu sync.Mutex
	// guarded by mu
	first, last *parcel
	n           int
	_           [32]byte // cores share no line
}

// outboxes has one for each core: who puts one back leaves it to the next that
// runs there.
var outboxes = sync.Pool{New: func() any { return new(outbox) }}

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

// post writes what there is room for, as sendNow does, together with what others
// are about to write. The descriptor must not go away meanwhile. others reports
// whether it was written while others ran, so that there may be an answer by now.
func (p *parcel) post(fd int, bytes []byte) (n int, others bool, err error) {
	p.fd, p.bytes = fd, bytes
	p.done.Store(false)
	o := outboxes.Get().(*outbox)
	room := o.put(p)
	outboxes.Put(o)
	if room {
		runtime.Gosched()
		others = p.done.Load()
	}
	for !p.done.Load() {
		if !o.flush() {
			runtime.Gosched() // another core is writing it
		}
	}
	p.bytes = nil
	return p.n, others, p.err
}

// flush writes what waits, and reports whether there was anything. Several may
// share the work; nobody does so much of it that others, who go on to put
// something in, keep him from his own.
func (o *outbox) flush() bool {
	for n := range outboxFull {
		p := o.take()
		if p == nil {
			return n > 0
		}
		p.write()
	}
	return true
}

func (p *parcel) write() {
	p.n, p.err = sendNow(p.fd, p.bytes)
	p.done.Store(true)
}

// put puts a parcel in, and reports whether there is room for more.
func (o *outbox) put(p *parcel) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.first = p
	} else {
		o.last.next = p
	}
	o.last = p
	o.n++
	return o.n < outboxFull
}

// take takes out the parcel that was put in first, or nil.
func (o *outbox) take() *parcel {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.first
	if p == nil {
		return nil
	}
	o.first, p.next = p.next, nil
	if o.first == nil {
		o.last = nil
	}
	o.n--
	return p
}
