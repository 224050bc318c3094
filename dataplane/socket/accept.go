package socket

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Listening is a socket that clients connect to. One goroutine accepts.
type Listening struct {
	file *os.File
	raw  syscall.RawConn
	addr net.Addr
	wait func(fd uintptr) bool
	look func(fd uintptr)

	// of the call that is under way
	conn *Stream
	err  error
}

// Listen takes over a *net.TCPListener or *net.UnixListener.
func Listen(l net.Listener) (*Listening, error) {
	file, err := l.(interface{ File() (*os.File, error) }).File()
	if unix, ok := l.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false) // Close does
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	s := &Listening{file: file, addr: l.Addr()}
	s.look = func(fd uintptr) { s.conn, s.err = acceptNow(int(fd)) }
	s.wait = func(fd uintptr) bool {
		s.look(fd)
		return s.err != syscall.EAGAIN
	}
	s.raw, err = file.SyscallConn()
	return s, err
}

// Addr is where the socket is bound.
func (s *Listening) Addr() net.Addr { return s.addr }

// SyscallConn gives access to the descriptor.
func (s *Listening) SyscallConn() (syscall.RawConn, error) { return s.raw, nil }

// SetDeadline ends Accept then.
func (s *Listening) SetDeadline(t time.Time) error { return s.file.SetReadDeadline(t) }

// Close ends Accept, and removes a unix socket.
func (s *Listening) Close() error {
	if at, ok := s.addr.(*net.UnixAddr); ok && !strings.HasPrefix(at.Name, "@") {
		_ = os.Remove(at.Name)
	}
	return s.file.Close()
}

// Accept lets others run and then waits for a connection. The error is
// os.ErrDeadlineExceeded, net.ErrClosed or what the kernel says.
func (s *Listening) Accept() (*Stream, error) {
	runtime.Gosched() // after one client others are likely, and a look in vain costs as much as they do
	if err := s.raw.Read(s.wait); errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, err
	} else if err != nil {
		return nil, net.ErrClosed
	}
	return s.conn, os.NewSyscallError("accept4", s.err)
}

// AcceptNow accepts a connection that waits already, also when the deadline has
// passed; syscall.EAGAIN says that there is none.
func (s *Listening) AcceptNow() (*Stream, error) {
	if err := s.raw.Control(s.look); err != nil {
		return nil, err
	}
	return s.conn, os.NewSyscallError("accept4", s.err)
}

// acceptNow accepts as raw.go writes and reads: the scheduler does not hear of
// the call. The error is a syscall.Errno.
func acceptNow(listening int) (*Stream, error) {
	var from syscall.RawSockaddrAny
	for {
		size := uint32(unsafe.Sizeof(from))
		fd, _, errno := syscall.RawSyscall6(syscall.SYS_ACCEPT4, uintptr(listening), uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&size)),
			syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
		switch errno {
		case syscall.EINTR:
		case 0:
			return &Stream{fd: int(fd), peer: addressOf(&from)}, nil
		default:
			return nil, errno
		}
	}
}

// addressOf is an address of IPv4 or IPv6; the zero AddrPort is another.
func addressOf(from *syscall.RawSockaddrAny) netip.AddrPort {
	switch from.Addr.Family {
	case syscall.AF_INET:
		four := (*syscall.RawSockaddrInet4)(unsafe.Pointer(from))
		return netip.AddrPortFrom(netip.AddrFrom4(four.Addr), hostOrder(&four.Port))
	case syscall.AF_INET6:
		six := (*syscall.RawSockaddrInet6)(unsafe.Pointer(from))
		ip := netip.AddrFrom16(six.Addr).Unmap()
		if six.Scope_id != 0 {
			ip = ip.WithZone(strconv.FormatUint(uint64(six.Scope_id), 10))
		}
		return netip.AddrPortFrom(ip, hostOrder(&six.Port))
	}
	return netip.AddrPort{}
}

func hostOrder(port *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(port))[:])
}
