package listener

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// BindBeside is Bind for an address over TCP that is taken by others which are
// about to go: ":80" beside "127.0.0.1:80", or the reverse. Nothing comes in over
// the new socket before Serve, so that clients go on reaching the others until
// then. The others share their port until Keep.
func BindBeside(address string, others []*Listener, logger *slog.Logger) (*Listener, error) {
	for _, o := range others {
		if err := o.share(true); err != nil {
			return nil, err
		}
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	fd, err := bindOnly(at)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: at, Err: err}
	}
	file := os.NewFile(uintptr(fd), address)
	bound, err := net.FileListener(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	l, err := newListener("tcp", address, bound, logger)
	if err == nil {
		l.waits = true
	}
	return l, err
}

// Keep ends the sharing that BindBeside began.
func (l *Listener) Keep() {
	if err := l.share(false); err != nil {
		l.logger.Warn("a listener goes on sharing its port", "address", l.address, "error", err)
	}
}

// share lets others of this user bind the port beside this socket. It is not left
// on: two programs that were started by mistake would share the clients.
func (l *Listener) share(on bool) error {
	return l.control(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, number(on)) })
}

func number(on bool) int {
	if on {
		return 1
	}
	return 0
}

func (l *Listener) control(do func(fd int) error) error {
	raw, err := l.socket.SyscallConn()
	if err != nil {
		return err
	}
	var fault error
	err = raw.Control(func(fd uintptr) { fault = do(int(fd)) })
	return errors.Join(err, fault)
}

// begin lets connections come to a socket that was only bound.
func (l *Listener) begin() {
	if !l.waits {
		return
	}
	err := l.control(func(fd int) error { return unix.Listen(fd, maxWaiting) })
	if err != nil {
		l.logger.Error("a listener could not begin", "address", l.address, "error", err)
	}
	l.Keep()
}

// bindOnly is a socket that is bound, shares its port, and does not listen. As
// with net.Listen, a wildcard takes IPv4 and IPv6 where there are both.
func bindOnly(at *net.TCPAddr) (int, error) {
	family, address, err := socketAddress(at)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) && at.IP.IsUnspecified() {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Port: at.Port}
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := bindTo(fd, family, address, at.IP == nil || at.IP.IsUnspecified()); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func bindTo(fd, family int, address unix.Sockaddr, wildcard bool) error {
	options := [][3]int{{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1}, {unix.SOL_SOCKET, unix.SO_REUSEPORT, 1}}
	if family == unix.AF_INET6 {
		options = append(options, [3]int{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, number(!wildcard)})
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o[0], o[1], o[2]); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return os.NewSyscallError("bind", unix.Bind(fd, address))
}

func socketAddress(at *net.TCPAddr) (family int, address unix.Sockaddr, err error) {
	if v4 := at.IP.To4(); v4 != nil && !at.IP.IsUnspecified() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(v4)}, nil
	}
	v6 := &unix.SockaddrInet6{Port: at.Port}
	if len(at.IP) == net.IPv6len && !at.IP.IsUnspecified() {
		copy(v6.Addr[:], at.IP)
	}
	if at.Zone == "" {
		return unix.AF_INET6, v6, nil
	}
	if n, err := strconv.ParseUint(at.Zone, 10, 32); err == nil {
		v6.ZoneId = uint32(n)
		return unix.AF_INET6, v6, nil
	}
	link, err := net.InterfaceByName(at.Zone)
	if err != nil {
		return 0, nil, err
	}
	v6.ZoneId = uint32(link.Index)
	return unix.AF_INET6, v6, nil
}
