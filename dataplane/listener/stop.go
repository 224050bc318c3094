package listener

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// maxWaiting bounds what is accepted of a socket that goes, so that clients who
// keep coming cannot hold it open. It is the kernel's default bound of the queue
// (net.core.somaxconn).
const maxWaiting = 4096

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Stop closes the socket, so that its address can be bound again at once. The
// connections that wait in the kernel's queue are accepted first: their clients
// believe to be connected, and closing the socket would reset them. They are
// served if the limit has room for them. A second call does nothing.
func (l *Listener) Stop() {
	l.mu.Lock()
	again := l.stopping
	l.stopping = true
	l.wake()
	l.mu.Unlock()
	if again {
		return
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

// acceptWaiting empties the kernel's queue. Accept would not look at it any more:
// the deadline of the socket has passed.
func (l *Listener) acceptWaiting(open func(c net.Conn, n uint64) Conn) {
	for range maxWaiting {
		if !l.hasRoom() {
			return
		}
		c, err := l.socket.AcceptNow()
		if errors.Is(err, syscall.ECONNABORTED) {
			continue
		}
		if err != nil {
			return
		}
		l.start(c, open)
	}
}

func (l *Listener) hasRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.overLimit()
}
