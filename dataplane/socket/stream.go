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

// Stream is a connection over TCP or a unix socket, which was accepted or taken over
// by Own. The poller of a loop may know it (Attend, Join); if none does, the runtime's
// hears of it when somebody has to wait for it, and not before: a client whose only
// request is there at the first look is served and sent away without. It has the
// methods of net.TCPConn that are used here, and they may be called from any
// goroutine.
type Stream struct {
	fd    int
	peer  netip.AddrPort // the zero AddrPort on a unix socket
	users atomic.Int32   // who hold the descriptor; less by closing when it is to go
	over  atomic.Bool    // Close was called
	known atomic.Pointer[known]
	mu    sync.Mutex // to become known, or join a loop
	door  *Door      // where it has waited, or nil

	// While a loop's poller knows the connection.
	loop    atomic.Pointer[Loop]
	in, out slot       // who waits to read and to write
	reads   sync.Mutex // held by the goroutine that reads, or waits for it: one at a time, and what it leaves is for the next
	fills   sync.Mutex // the same of writing
	place   int32
	ending  atomic.Bool  // the poller has told of an end, which may lie behind what can be read
	writes  atomic.Bool  // the poller says when there is room
	readBy  atomic.Int64 // deadlines, times of Now; 0: none
	writeBy atomic.Int64
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
	if a, ok := c.(*Stream); ok {
		return a.peer
	}
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		at := a.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return netip.AddrPort{}
}

// hold keeps the descriptor from being closed until letGo, unless it is to be
// closed already. Close wakes those who wait before it gives up its own hold: they must
// not take another one then, and wait again.
func (a *Stream) hold() bool {
	for {
		n := a.users.Load()
		if n < 0 || a.over.Load() {
			return false
		}
		if a.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (a *Stream) letGo() {
	if a.users.Add(-1) == -closing {
		_ = a.shut()
	}
}

// Close ends all waits. The descriptor goes when nobody holds it any more.
func (a *Stream) Close() error {
	if a.over.Swap(true) {
		return net.ErrClosed
	}
	if a.loop.Load() != nil {
		a.quit()
	}
	if a.users.Add(-closing) == -closing {
		return a.shut()
	}
	return nil
}

// shut closes the descriptor.
func (a *Stream) shut() error {
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
func (a *Stream) introduce() (*known, error) {
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
	if l := a.loop.Load(); l != nil {
		l.forget(a)
	}
	if by := a.readBy.Load(); by != 0 {
		_ = file.SetReadDeadline(At(by))
	}
	if by := a.writeBy.Load(); by != 0 {
		_ = file.SetWriteDeadline(At(by))
	}
	k := &known{file, raw}
	a.known.Store(k)
	a.in.wake() // to wait by the runtime's
	a.out.wake()
	return k, nil
}

// Read reads what is there, or waits for it.
func (a *Stream) Read(p []byte) (n int, err error) {
	var fault error
	err = (*rawStream)(a).Read(func(fd uintptr) bool {
		n, fault = readNow(int(fd), p)
		return fault != syscall.EAGAIN
	})
	switch {
	case err != nil:
	case fault != nil:
		err = os.NewSyscallError("read", fault)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, a.fault("read", err)
}

// Write writes all of p, or waits until it can.
func (a *Stream) Write(p []byte) (n int, err error) {
	var fault error
	err = (*rawStream)(a).Write(func(fd uintptr) bool {
		for n < len(p) {
			var m int
			m, fault = sendNow(int(fd), p[n:])
			if n += m; fault != nil {
				return fault != syscall.EAGAIN
			}
		}
		return true
	})
	if err == nil {
		err = os.NewSyscallError("write", fault)
	}
	return n, a.fault("write", err)
}

// fault makes an error that of a connection, where it is that of a file.
func (a *Stream) fault(op string, err error) error {
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
func (a *Stream) SetDeadline(t time.Time) error {
	return errors.Join(a.SetReadDeadline(t), a.SetWriteDeadline(t))
}

// SetReadDeadline ends waits to read then.
func (a *Stream) SetReadDeadline(t time.Time) error {
	return a.set(&a.in, &a.readBy, (*os.File).SetReadDeadline, t)
}

// SetWriteDeadline ends waits to write then.
func (a *Stream) SetWriteDeadline(t time.Time) error {
	return a.set(&a.out, &a.writeBy, (*os.File).SetWriteDeadline, t)
}

func (a *Stream) set(s *slot, by *atomic.Int64, deadline func(*os.File, time.Time) error, t time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over.Load() {
		return a.fault("set", net.ErrClosed)
	}
	by.Store(nowOf(t))
	if k := a.known.Load(); k != nil {
		return a.fault("set", deadline(k.File, t))
	}
	if w := s.who.Load(); by.Load() == fired || w != nil && w != arrived {
		s.wake()
	}
	return nil
}

// CloseWrite sends the end of the stream and leaves reading open.
func (a *Stream) CloseWrite() error {
	return a.control("shutdown", func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

// SetLinger says what Close does with what was not sent yet: 0 forgets it and
// resets the connection.
func (a *Stream) SetLinger(seconds int) error {
	return a.control("set", func(fd int) error {
		linger := unix.Linger{Onoff: 1, Linger: int32(seconds)}
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &linger)
	})
}

func (a *Stream) control(op string, do func(fd int) error) error {
	var fault error
	err := (*rawStream)(a).Control(func(fd uintptr) { fault = do(int(fd)) })
	if err == nil {
		err = fault
	}
	return a.fault(op, err)
}

// RemoteAddr is the client's address, or that of a unix socket, which has none.
func (a *Stream) RemoteAddr() net.Addr { return netAddr(a.peer) }

// LocalAddr is the address that the client has connected to.
func (a *Stream) LocalAddr() net.Addr {
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
func (a *Stream) SyscallConn() (syscall.RawConn, error) { return (*rawStream)(a), nil }

// rawStream is a Stream as a [syscall.RawConn].
type rawStream Stream

// Control has something done that does not wait.
func (r *rawStream) Control(do func(fd uintptr)) error {
	a := (*Stream)(r)
	if !a.hold() {
		return net.ErrClosed
	}
	defer a.letGo()
	do(uintptr(a.fd))
	return nil
}

// Read has something done when there may be something to read, until it is.
func (r *rawStream) Read(do func(fd uintptr) (done bool)) error {
	a := (*Stream)(r)
	a.reads.Lock()
	defer a.reads.Unlock()
	return a.await(syscall.RawConn.Read, &a.in, &a.readBy, do)
}

// Write has something done when there may be room to write, until it is.
func (r *rawStream) Write(do func(fd uintptr) (done bool)) error {
	a := (*Stream)(r)
	a.fills.Lock()
	defer a.fills.Unlock()
	return a.await(syscall.RawConn.Write, &a.out, &a.writeBy, do)
}

// await has something tried at once, and when a poller says so if that was in vain.
func (a *Stream) await(ready func(syscall.RawConn, func(uintptr) bool) error, s *slot, by *atomic.Int64, do func(fd uintptr) bool) error {
	for a.known.Load() == nil {
		if limit := by.Load(); limit != 0 && Now() >= limit {
			return os.ErrDeadlineExceeded
		}
		if done, err := a.once(do); done || err != nil {
			return err
		}
		l := a.loop.Load()
		if l == nil {
			break
		}
		if err := a.wait(l, s, by); err != nil {
			return err
		}
	}
	k, err := a.introduce()
	if err != nil {
		return err
	}
	stir()
	if err = ready(k.raw, do); err != nil && a.over.Load() {
		return net.ErrClosed
	}
	return err
}

// wait waits on a goroutine for what the poller of a loop says.
func (a *Stream) wait(l *Loop, s *slot, by *atomic.Int64) error {
	if s == &a.out && !a.writes.Load() {
		a.tellOfRoom()
	}
	stir()
	w := waiters.Get().(*waiter)
	defer waiters.Put(w)
	for {
		limit := by.Load()
		switch {
		case a.over.Load():
			return net.ErrClosed
		case limit != 0 && Now() >= limit:
			return os.ErrDeadlineExceeded
		case a.loop.Load() != l || !s.await(w):
			return nil
		case a.over.Load() || by.Load() != limit || a.loop.Load() != l:
			if !s.leave(w) {
				<-w.bell
			}
		default:
			if s.ringsBefore(w, limit) {
				return nil
			}
		}
	}
}

// tellOfRoom has the loop's poller say when there is room to write, and that of every
// loop that knows the connection later.
func (a *Stream) tellOfRoom() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes.Store(true)
	if l := a.loop.Load(); l != nil {
		l.tellOfRoom(a)
	}
}

// evict has the connection known to no poller, if it is still l's that knows it.
func (a *Stream) evict(l *Loop) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.loop.CompareAndSwap(l, nil) {
		return
	}
	a.in.wake()
	a.out.wake()
}

// quit has a connection that is closed known to no poller.
func (a *Stream) quit() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.loop.Load(); l != nil {
		l.forget(a)
	}
	a.in.wake()
	a.out.wake()
}

// Own makes a connection over TCP or a unix socket that the net package has made one
// that a loop can serve. Others are left as they are.
func Own(c net.Conn) (net.Conn, error) {
	raw := wireOf(c).raw
	if _, ok := c.(*Stream); ok || raw == nil {
		return c, nil
	}
	a := &Stream{peer: PeerOf(c)}
	var fault error
	err := raw.Control(func(fd uintptr) { a.fd, fault = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, os.NewSyscallError("fcntl", fault)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err = c.Close(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// once has something tried that need not wait, and reports whether it is done.
func (a *Stream) once(do func(fd uintptr) bool) (done bool, err error) {
	if !a.hold() {
		return false, net.ErrClosed
	}
	defer a.letGo()
	return do(uintptr(a.fd)), nil
}
