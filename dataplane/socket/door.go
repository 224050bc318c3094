package socket

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Door is where connections wait that were accepted and have said nothing yet. It
// has a poller of its own, in which a connection costs one system call, goes by
// itself when it is closed, and needs no goroutine: many clients say all that they
// have to say at once, and are served without having been known to the runtime's.
// Who is silent for long is let in all the same, to wait as others do.
type Door struct {
	file   *os.File // the epoll instance
	fd     int      // the same, valid while the door is not closed
	events [64]unix.EpollEvent
	ended  chan struct{} // closed when nobody looks any more

	mu sync.Mutex
	// guarded by mu
	guests []guest // by place
	free   []int32 // places
	sweeps bool    // a sweep is due
	closed bool
}

// guest waits at the door.
type guest struct {
	enter func() // nil: the place is free
	visit int32  // counts those who had the place
	seen  bool   // by a sweep
}

// The bounds of a door.
const (
	maxGuests  = 1024
	doorPeriod = 100 * time.Millisecond // between sweeps; a guest stays for two at most
)

// NewDoor makes a door, to be closed.
func NewDoor() (*Door, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		err = unix.SetNonblock(fd, true) // or os.File would not wait for it
	}
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	d := &Door{file: os.NewFile(uintptr(fd), "door"), fd: fd, ended: make(chan struct{})}
	raw, err := d.file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, d.file.Close())
	}
	go d.look(raw)
	return d, nil
}

// Await calls enter, which must not wait, when there is something to read from a
// connection, or when that has taken too long.
func (d *Door) Await(a *Stream, enter func()) {
	a.door = d
	if !d.receive(a, enter) {
		enter()
	}
}

// receive gives a guest a place, if there is one.
func (d *Door) receive(a *Stream, enter func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	place, visit, ok := d.seat(enter)
	if ok && !d.tell(a, unix.EPOLL_CTL_ADD, place, visit) {
		d.leave(place)
		return false
	}
	return ok
}

// seat finds a place. The caller holds mu.
func (d *Door) seat(enter func()) (place, visit int32, ok bool) {
	last := len(d.free) - 1
	switch {
	case last >= 0:
		place, d.free = d.free[last], d.free[:last]
	case len(d.guests) < maxGuests:
		place = int32(len(d.guests))
		d.guests = append(d.guests, guest{})
	default:
		return 0, 0, false
	}
	g := &d.guests[place]
	g.enter, g.seen = enter, false
	if !d.sweeps {
		d.sweeps = true
		time.AfterFunc(doorPeriod, d.sweep)
	}
	return place, g.visit, true
}

// letIn has a guest enter who has not done so.
func (d *Door) letIn(place, visit int32) {
	d.mu.Lock()
	var enter func()
	if g := &d.guests[place]; g.visit == visit {
		enter = d.leave(place)
	}
	d.mu.Unlock()
	if enter != nil {
		enter()
	}
}

// leave takes a guest's place, if there is a guest. The caller holds mu.
func (d *Door) leave(place int32) (enter func()) {
	g := &d.guests[place]
	if g.enter != nil {
		enter, g.enter = g.enter, nil
		g.visit++
		d.free = append(d.free, place)
	}
	return enter
}

// sweep lets those in that were here at the last sweep, and comes again if anybody
// is left.
func (d *Door) sweep() {
	d.mu.Lock()
	var late []func()
	left := false
	for place := range d.guests {
		switch g := &d.guests[place]; {
		case g.enter == nil:
		case g.seen:
			late = append(late, d.leave(int32(place)))
		default:
			g.seen, left = true, true
		}
	}
	if d.sweeps = left && !d.closed; d.sweeps {
		time.AfterFunc(doorPeriod, d.sweep)
	}
	d.mu.Unlock()
	for _, enter := range late {
		enter()
	}
}

// Close lets everybody in, and those at once who come later.
func (d *Door) Close() error {
	d.mu.Lock()
	d.closed = true
	var all []func()
	for place := range d.guests {
		if enter := d.leave(int32(place)); enter != nil {
			all = append(all, enter)
		}
	}
	d.mu.Unlock()
	for _, enter := range all {
		enter()
	}
	err := d.file.Close()
	<-d.ended
	return err
}

// look lets in who says something, until the door is closed.
func (d *Door) look(raw syscall.RawConn) {
	defer close(d.ended)
	_ = raw.Read(d.answer)
}

// answer is called when there may be somebody who says something. Others run first:
// meanwhile more may come, and what is served together is written together.
func (d *Door) answer(fd uintptr) bool {
	runtime.Gosched()
	for n := len(d.events); n == len(d.events); {
		n = pollNow(int(fd), d.events[:])
		for _, e := range d.events[:n] {
			d.letIn(e.Fd, e.Pad)
		}
	}
	return false
}

// pollNow is what has happened.
func pollNow(fd int, events []unix.EpollEvent) int { return pollFor(fd, events, 0) }

// pollFor is what happens within so many milliseconds, or until the thread gets a
// signal.
func pollFor(fd int, events []unix.EpollEvent, ms int) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), uintptr(ms), 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// forget has the door's poller know nothing of a connection that others wait for.
func (d *Door) forget(a *Stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.tell(a, unix.EPOLL_CTL_DEL, 0, 0)
	}
}

// tell has the door's poller know a connection, and say once that there is something
// to read, or forget it. The caller holds mu, and the door is open.
func (d *Door) tell(a *Stream, op int, place, visit int32) bool {
	if !a.hold() {
		return false
	}
	defer a.letGo()
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: place, Pad: visit}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(d.fd), uintptr(op), uintptr(a.fd), uintptr(unsafe.Pointer(&event)), 0, 0)
	return errno == 0
}
