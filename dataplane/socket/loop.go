package socket

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Loop serves connections on one goroutine, in the order in which something comes
// for them. It has a poller of its own, so that a connection that rests costs
// neither a goroutine nor a stack, and the one that serves it goes from a client to
// its upstream and back without the scheduler. What cannot go on without waiting for
// something else than a socket leaves the loop for a goroutine of its own.
//
// What is to be written waits until all has been handled that came together: a peer
// that sleeps is woken once for many writes, where it would sleep again between two
// of them, and to wake somebody is much of what a small write costs.
type Loop struct {
	file  *os.File // the epoll instance
	fd    int      // the same, valid while the loop runs
	bell  int      // an eventfd by which others call
	shard *crewShard
	ended chan struct{} // closed when the loop runs no more

	// Owned by the loop's goroutine.
	events   [loopBatch]unix.EpollEvent
	guests   [loopBatch]*Stream // whom the events are for
	now      int64              // when they were found, if somebody has asked; or 0
	calls    []*watch
	letters  []*letter // are about to be written
	written  []*watch  // waited for that
	spare    []*watch  // room for as many
	patience patience

	closing atomic.Bool // it ends with the last connection
	comes   atomic.Bool // it is time to see to the newcomers

	mu sync.Mutex
	// guarded by mu
	seats    []seat
	free     []int32
	called   []*watch // by others
	rung     bool     // the bell is, since the loop has looked
	attended int      // connections that are served
	young    [2]crowd // those who came since the loop came by, and before
	newer    int      // which are the former
	comesBy  bool     // to see to them
	closed   bool
}

const (
	bellPlace  = -1 // of the eventfd
	loopBatch  = 32 // events at once: with more, caches hold less of what each needs
	loopGather = 4  // writes that do not wait for what else may have come
	loopBudget = 96 // events or writes after which others have their turn
	loopEvents = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET
)

// NewLoop makes a loop whose connections are served by members of a shard of the
// crew. It is to be closed.
func NewLoop(crew *Crew, shard int) (*Loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("eventfd2", err)
	}
	err = errors.Join(unix.SetNonblock(fd, true), // or os.File would not wait for it
		unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, bell, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: bellPlace}))
	l := &Loop{file: os.NewFile(uintptr(fd), "loop"), fd: fd, bell: bell, shard: crew.shard(shard), ended: make(chan struct{})}
	raw, fault := l.file.SyscallConn()
	if err = errors.Join(err, fault); err != nil {
		return nil, errors.Join(err, l.file.Close(), unix.Close(bell))
	}
	go l.run(raw)
	return l, nil
}

// Close ends the loop when the last connection that it serves has gone.
func (l *Loop) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing.Store(true)
	l.ring()
}

func (l *Loop) run(raw syscall.RawConn) {
	defer close(l.ended)
	_ = raw.Read(l.turn)
	l.mu.Lock()
	l.closed = true
	seats := l.seats
	l.seats, l.free = nil, nil
	l.mu.Unlock()
	for _, s := range seats {
		if s.guest != nil {
			s.guest.evict(l)
		}
	}
	_ = l.file.Close()
	_ = unix.Close(l.bell)
}

// turn is called when something has come. It reports true when the loop is over.
func (l *Loop) turn(uintptr) bool {
	l.patience.wake(Now())
	for left := loopBudget; left > 0; {
		n := l.round(pollNow(l.fd, l.events[:]))
		left -= n
		if n > 0 && len(l.letters) < loopGather {
			continue // what comes now goes out with it
		}
		delivered := l.deliver()
		left -= delivered
		if n > 0 || len(l.letters) > 0 || len(l.written) > 0 {
			continue
		}
		n = l.round(l.wait())
		if left -= n; n == 0 && delivered == 0 {
			l.patience.rest(Now())
			return l.over()
		}
	}
	l.write()
	l.ringAgain()
	return false
}

// over reports whether the loop is to end, and lets nobody enter then.
func (l *Loop) over() bool {
	if !l.closing.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = l.attended == 0
	return l.closed
}

// ringAgain has the loop come round though it may have been told before: of what is
// left the runtime's poller does not tell twice.
func (l *Loop) ringAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rung = false
	l.ring()
}

// round handles n events that have come, and returns n.
func (l *Loop) round(n int) int {
	l.now = 0
	if n == 0 {
		return 0
	}
	l.find(n)
	for i := range n {
		if a := l.guests[i]; a != nil {
			l.guests[i] = nil
			a.happened(l, l.events[i].Events)
		}
	}
	for i, t := range l.calls {
		l.calls[i] = nil
		l.look(t)
	}
	l.calls = l.calls[:0]
	l.comeBy()
	return n
}

// find finds whom the first n events are for.
func (l *Loop) find(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.events[:n] {
		switch {
		case e.Fd == bellPlace:
			l.calls, l.called = l.called, l.calls
			l.rung = false
		case int(e.Fd) < len(l.seats) && l.seats[e.Fd].visit == e.Pad:
			l.guests[i] = l.seats[e.Fd].guest
		}
	}
}

// call has the loop look at a task, from any goroutine.
func (l *Loop) call(t *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.called = append(l.called, t)
	l.ring()
}

// ring has the loop come round, unless it is over. The caller holds mu.
func (l *Loop) ring() {
	if l.rung || l.closed {
		return
	}
	l.rung = true
	one := uint64(1)
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(l.bell), uintptr(unsafe.Pointer(&one)), 8) //nolint:errcheck // it can only be full, and then it rings
}

// look sees whether a task that it was called for is to go on.
func (l *Loop) look(t *watch) {
	if t.fired.Load() && t.fired.Swap(false) {
		t.armed = 0
	}
	switch t.mode.Load() {
	case inLoop:
		t.look()
	case returning:
		// Whoever waited meanwhile was told of what is there, and may have left some.
		t.mode.Store(inLoop)
		t.dry = false
		t.proceed()
	}
}

// happened goes on with who waits for the events, on the loop's goroutine.
func (a *Stream) happened(l *Loop, events uint32) {
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		a.ending.Store(true)
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		l.goOn(a.in.happen())
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 && a.writes.Load() {
		l.goOn(a.out.happen())
	}
}

// time is a look at the clock, shared by what has come together.
func (l *Loop) time() int64 {
	if l.now == 0 {
		l.now = Now()
	}
	return l.now
}

func (l *Loop) goOn(w *waiter) {
	switch {
	case w == nil:
	case w.call != nil:
		l.patience.over = true // goroutines write the answer, or go on with it
		w.call.take().Arrived(l.time())
	case w.task == nil:
		l.patience.over = true
		w.ring()
	case w.task.loop == l:
		w.task.proceed()
	default:
		w.task.loop.call(w.task)
	}
}

// leave counts a connection out.
func (l *Loop) leave(t *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.crowd != nil {
		t.crowd.remove(t)
	}
	l.attended--
	if l.attended == 0 && l.closing.Load() {
		l.ring()
	}
}
