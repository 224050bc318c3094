package socket

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seat is where the loop's poller finds a connection.
type seat struct {
	guest *Stream // nil: the seat is free
	visit int32   // counts those who had the seat
}

// Join has who waits for the connection wait by the poller of a loop, which may serve it
// later, as long as it is not known to the runtime's.
func (a *Stream) Join(l *Loop) {
	if a.loop.Load() == nil && a.known.Load() == nil {
		l.admit(a)
	}
}

// join has the loop's poller know a connection, unless the runtime's does, or the
// connection is closed.
func (l *Loop) join(a *Stream) bool {
	return a.loop.Load() == l || l.admit(a)
}

func (l *Loop) admit(a *Stream) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known.Load() != nil || !a.hold() {
		return false
	}
	defer a.letGo()
	if other := a.loop.Load(); other != nil {
		other.forget(a)
	}
	if !l.take(a) {
		a.in.wake() // who waits has no poller any more
		a.out.wake()
		return false
	}
	return true
}

// take has the loop's poller know a connection that no poller knows. The caller holds
// a.mu and the descriptor.
func (l *Loop) take(a *Stream) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.seat(a)
	events := uint32(loopEvents)
	if a.writes.Load() {
		events |= unix.EPOLLOUT
	}
	if l.tell(a, unix.EPOLL_CTL_ADD, events) != 0 {
		l.unseat(a)
		return false
	}
	if a.loop.Store(l); a.over.Load() { // Close may have seen no loop
		a.loop.Store(nil)
		l.unseat(a)
		return false
	}
	return true
}

// seat gives a connection a place. The caller holds mu.
func (l *Loop) seat(a *Stream) {
	if last := len(l.free) - 1; last >= 0 {
		a.place, l.free = l.free[last], l.free[:last]
	} else {
		a.place = int32(len(l.seats))
		l.seats = append(l.seats, seat{})
	}
	l.seats[a.place].guest = a
}

// unseat frees a place. The caller holds mu.
func (l *Loop) unseat(a *Stream) {
	s := &l.seats[a.place]
	s.guest = nil
	s.visit++
	l.free = append(l.free, a.place)
}

// forget has the loop's poller know nothing of a connection. The caller holds a.mu,
// and the descriptor, or has it closed now.
func (l *Loop) forget(a *Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.loop.Store(nil)
	if l.closed {
		return
	}
	if !a.over.Load() {
		_ = l.tell(a, unix.EPOLL_CTL_DEL, 0)
	}
	l.unseat(a)
}

func (l *Loop) tell(a *Stream, op int, events uint32) syscall.Errno {
	event := unix.EpollEvent{Events: events, Fd: a.place, Pad: l.seats[a.place].visit}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(l.fd), uintptr(op), uintptr(a.fd), uintptr(unsafe.Pointer(&event)), 0, 0)
	return errno
}

// tellOfRoom has the loop's poller say when there is room to write. The caller holds
// a.mu.
func (l *Loop) tellOfRoom(a *Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && a.loop.Load() == l {
		_ = l.tell(a, unix.EPOLL_CTL_MOD, loopEvents|unix.EPOLLOUT)
	}
}
