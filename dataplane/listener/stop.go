package listener

import (
	"errors"
	"math"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxWaiting bounds what is accepted of a socket that goes, so that clients who
// keep coming cannot hold it open. It is the kernel's default bound of the queue
// (net.core.somaxconn).
const maxWaiting = 4096

// straggling is how long the handshakes may take that had begun when a socket was
// hidden.
const straggling = 10 * time.Millisecond

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Stop begins a drain: the open connections hear of it, and the socket is closed, so
// that its address can be bound again at once. The connections that wait in the
// kernel's queue are accepted first: their clients believe to be connected, and
// closing the socket would reset them. They are served if the limit has room for
// them. So that nobody comes between the last look at the queue and the end, the
// socket is hidden before. A second call does nothing.
func (l *Listener) Stop() {
	l.mu.Lock()
	again := l.stopping
	l.stopping = true
	l.wake()
	open := list(l.conns)
	l.mu.Unlock()
	if again {
		return
	}
	for _, c := range open {
		c.Drain() // now, for the stragglers take a moment
	}
	if l.socket.SetDeadline(past) != nil {
		_ = l.socket.Close()
	}
	l.accepting.Wait()
	_ = l.socket.Close()
	_ = l.door.Close()
}

func (l *Listener) ends() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopping
}

// hide has the kernel find others for new connections, as if the socket were not
// there: it is bound to a network device that does not exist. Handshakes that have
// begun go on. Linux before 5.7 lets root do that alone.
func (l *Listener) hide() error {
	if l.network != "tcp" {
		return errors.ErrUnsupported
	}
	return l.control(func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, math.MaxInt32)
	})
}

// acceptWaiting empties the kernel's queue, and once more while there are
// stragglers. Accept would not look at it any more: the deadline of the socket has
// passed.
func (l *Listener) acceptWaiting(open func(c net.Conn, n uint64) Conn) {
	more := l.hide() == nil
	l.acceptQueue(open)
	for ; more; more = l.acceptQueue(open) {
		time.Sleep(straggling)
	}
}

// acceptQueue empties the kernel's queue, and reports whether anything was in it.
func (l *Listener) acceptQueue(open func(c net.Conn, n uint64) Conn) (some bool) {
	for range maxWaiting {
		if !l.hasRoom() {
			return false
		}
		c, err := l.socket.AcceptNow()
		switch {
		case err == nil:
			some = true
			l.start(c, open)
		case !errors.Is(err, syscall.ECONNABORTED):
			return some
		}
	}
	return some
}

func (l *Listener) hasRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.overLimit()
}
