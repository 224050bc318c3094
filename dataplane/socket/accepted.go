package socket

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Accepted is a connection that a client made, over TCP or a unix socket. The poller
// hears of it when somebody has to wait for it or sets it a deadline, and not
// before: a client whose only request is there at the first look is served and sent
// away without. It has the methods of net.TCPConn that are used here, and they may
// be called from any goroutine.
type Accepted struct {
	fd    int
	peer  netip.AddrPort // the zero AddrPort on a unix socket
	users atomic.Int32   // who hold the descriptor; less by closing when it is to go
	over  atomic.Bool    // Close was called
	known atomic.Pointer[known]
	mu    sync.Mutex // to become known
	door  *Door      // where it has waited, or nil
}

// known is a connection that the poller knows.
type known struct {
	*os.File
	raw syscall.RawConn
}

// closing is more than can hold a descriptor.
const closing = 1 << 30

// PeerOf is the address of who is connected, one of IPv4 as such; the zero AddrPort
// is that of a unix socket.
func PeerOf(c net.Conn) netip.AddrPort {
	if a, ok := c.(*Accepted); ok {
		return a.peer
	}
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		at := a.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return netip.AddrPort{}
}

// hold keeps the descriptor from being closed until letGo, unless it is to be
// closed already.
func (a *Accepted) hold() bool {
	for {
		n := a.users.Load()
		if n < 0 {
			return false
		}
		if a.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (a *Accepted) letGo() {
	if a.users.Add(-1) == -closing {
		_ = a.shut()
	}
}

// Close ends all waits. The descriptor goes when nobody holds it any more.
func (a *Accepted) Close() error {
	if a.over.Swap(true) {
		return net.ErrClosed
	}
	if a.users.Add(-closing) == -closing {
		return a.shut()
	}
	return nil
}

// shut closes the descriptor.
func (a *Accepted) shut() error {
	if k := a.known.Load(); k != nil {
		return k.Close()
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(a.fd), 0, 0); errno != 0 {
		return os.NewSyscallError("close", errno)
	}
	return nil
}

// introduce tells the poller of the connection, once. If the poller cannot take it,
// what waits says so.
func (a *Accepted) introduce() (*known, error) {
	if k := a.known.Load(); k != nil {
		return k, nil
	}
	if !a.hold() {
		return nil, net.ErrClosed
	}
	defer a.letGo()
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.known.Load(); k != nil {
		return k, nil
	}
	file := os.NewFile(uintptr(a.fd), "client")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	if a.door != nil {
		a.door.forget(a)
	}
	k := &known{file, raw}
	a.known.Store(k)
	return k, nil
}

// Read reads what is there, or waits for it.
func (a *Accepted) Read(p []byte) (int, error) {
	k, err := a.introduce()
	if err != nil {
		return 0, a.fault("read", err)
	}
	n, err := k.File.Read(p)
	return n, a.fault("read", err)
}

// Write writes all of p, or waits until it can.
func (a *Accepted) Write(p []byte) (int, error) {
	k, err := a.introduce()
	if err != nil {
		return 0, a.fault("write", err)
	}
	n, err := k.File.Write(p)
	return n, a.fault("write", err)
}

// fault makes an error that of a connection, where it is that of a file.
func (a *Accepted) fault(op string, err error) error {
	var file *os.PathError
	switch {
	case err == nil || err == io.EOF:
		return err
	case errors.Is(err, os.ErrClosed):
		err = net.ErrClosed
	case errors.As(err, &file):
		err = file.Err
	}
	peer := a.RemoteAddr()
	return &net.OpError{Op: op, Net: peer.Network(), Addr: peer, Err: err}
}

// SetDeadline sets those of reading and writing.
func (a *Accepted) SetDeadline(t time.Time) error { return a.set((*os.File).SetDeadline, t) }

// SetReadDeadline ends waits to read then.
func (a *Accepted) SetReadDeadline(t time.Time) error { return a.set((*os.File).SetReadDeadline, t) }

// SetWriteDeadline ends waits to write then.
func (a *Accepted) SetWriteDeadline(t time.Time) error { return a.set((*os.File).SetWriteDeadline, t) }

func (a *Accepted) set(deadline func(*os.File, time.Time) error, t time.Time) error {
	k, err := a.introduce()
	if err == nil {
		err = deadline(k.File, t)
	}
	return a.fault("set", err)
}

// CloseWrite sends the end of the stream and leaves reading open.
func (a *Accepted) CloseWrite() error {
	return a.control("shutdown", func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

// SetLinger says what Close does with what was not sent yet: 0 forgets it and
// resets the connection.
func (a *Accepted) SetLinger(seconds int) error {
	return a.control("set", func(fd int) error {
		linger := unix.Linger{Onoff: 1, Linger: int32(seconds)}
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &linger)
	})
}

func (a *Accepted) control(op string, do func(fd int) error) error {
	var fault error
	err := (*rawAccepted)(a).Control(func(fd uintptr) { fault = do(int(fd)) })
	if err == nil {
		err = fault
	}
	return a.fault(op, err)
}

// RemoteAddr is the client's address, or that of a unix socket, which has none.
func (a *Accepted) RemoteAddr() net.Addr { return netAddr(a.peer) }

// LocalAddr is the address that the client has connected to.
func (a *Accepted) LocalAddr() net.Addr {
	local := netip.AddrPort{}
	_ = a.control("getsockname", func(fd int) error {
		name, err := unix.Getsockname(fd)
		switch at := name.(type) {
		case *unix.SockaddrInet4:
			local = netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port))
		case *unix.SockaddrInet6:
			local = netip.AddrPortFrom(netip.AddrFrom16(at.Addr), uint16(at.Port))
		}
		return err
	})
	return netAddr(local)
}

func netAddr(a netip.AddrPort) net.Addr {
	if !a.IsValid() {
		return &net.UnixAddr{Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(a)
}

// SyscallConn gives access to the descriptor.
func (a *Accepted) SyscallConn() (syscall.RawConn, error) { return (*rawAccepted)(a), nil }

// rawAccepted is an Accepted as a [syscall.RawConn].
type rawAccepted Accepted

// Control has something done that does not wait.
func (r *rawAccepted) Control(do func(fd uintptr)) error {
	a := (*Accepted)(r)
	if !a.hold() {
		return net.ErrClosed
	}
	defer a.letGo()
	do(uintptr(a.fd))
	return nil
}

// Read has something done when there may be something to read, until it is.
func (r *rawAccepted) Read(do func(fd uintptr) (done bool)) error {
	return (*Accepted)(r).await(syscall.RawConn.Read, do)
}

// Write has something done when there may be room to write, until it is.
func (r *rawAccepted) Write(do func(fd uintptr) (done bool)) error {
	return (*Accepted)(r).await(syscall.RawConn.Write, do)
}

// await has something tried at once, and by the poller if that was in vain.
func (a *Accepted) await(ready func(syscall.RawConn, func(uintptr) bool) error, do func(fd uintptr) bool) error {
	if a.known.Load() == nil {
		if done, err := a.once(do); done || err != nil {
			return err
		}
	}
	k, err := a.introduce()
	if err != nil {
		return err
	}
	if err = ready(k.raw, do); err != nil && a.over.Load() {
		return net.ErrClosed
	}
	return err
}

// once has something tried that need not wait, and reports whether it is done.
func (a *Accepted) once(do func(fd uintptr) bool) (done bool, err error) {
	if !a.hold() {
		return false, net.ErrClosed
	}
	defer a.letGo()
	return do(uintptr(a.fd)), nil
}
