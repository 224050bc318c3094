package listener

import (
	"errors"
	"net"
	"os"
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
	if s, ok := l.socket.(interface{ SetDeadline(t time.Time) error }); !ok || s.SetDeadline(past) != nil {
		_ = l.socket.Close()
	}
	l.accepting.Wait()
	_ = l.socket.Close()
}

func (l *Listener) ends() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopping
}

// acceptWaiting empties the kernel's queue. The socket's own Accept would not
// look at it any more: its deadline has passed.
func (l *Listener) acceptWaiting(open func(c net.Conn, n uint64) Conn) {
	socket, ok := l.socket.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return
	}
	for range maxWaiting {
		if !l.hasRoom() {
			return
		}
		c, err := acceptNow(raw)
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

// acceptNow accepts a connection that waits; EAGAIN says that there is none.
func acceptNow(raw syscall.RawConn) (net.Conn, error) {
	fd, err := -1, error(nil)
	if fault := raw.Control(func(socket uintptr) {
		for err = syscall.EINTR; err == syscall.EINTR; {
			fd, _, err = syscall.Accept4(int(socket), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		}
	}); fault != nil {
		return nil, fault
	}
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "accepted")
	defer func() { _ = file.Close() }()
	return net.FileConn(file)
}
