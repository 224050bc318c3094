package socket

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of a busy connection, without what the net package does
// around each: the descriptor is known not to go away, it does not block, and
// so the scheduler need not hear of the call.

// unread is room for the one control message that is asked for: the number of
// bytes that can still be read.
type unread struct {
	header syscall.Cmsghdr
	bytes  uint32
	_      uint32
}

// countUnread has the kernel say with each receive how much is left. Then a
// reader knows without another call whether to wait. An end that has come counts
// as a byte (tcp(7), TCP_INQ). Where that does not work, receive says so.
func countUnread(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_INQ, 1)
}

// receiveNow reads what is there. left is how much can be read after that; -1 if
// that is not known. The error is a syscall.Errno, EAGAIN if nothing is there.
func receiveNow(fd int, p []byte) (n, left int, err error) {
	var control unread
	vector := syscall.Iovec{Base: unsafe.SliceData(p), Len: uint64(len(p))}
	message := syscall.Msghdr{Iov: &vector, Iovlen: 1, Control: (*byte)(unsafe.Pointer(&control)), Controllen: uint64(unsafe.Sizeof(control))}
	for {
		got, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&message)), syscall.MSG_DONTWAIT)
		switch {
		case errno == syscall.EINTR:
		case errno != 0:
			return 0, -1, errno
		case message.Controllen == 0 || control.header.Type != unix.TCP_CM_INQ:
			return int(got), -1, nil
		default:
			return int(got), int(control.bytes), nil
		}
	}
}

// sendNow writes what there is room for. The error is a syscall.Errno.
func sendNow(fd int, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case syscall.EINTR:
		case 0:
			return int(n), nil
		default:
			return 0, errno
		}
	}
}

// readNow reads what is there. The error is a syscall.Errno, EAGAIN if nothing is.
func readNow(fd int, p []byte) (int, error) { return receiveFlagged(fd, p, 0) }

// peekNow is readNow that leaves the bytes where they are.
func peekNow(fd int, p []byte) (int, error) { return receiveFlagged(fd, p, syscall.MSG_PEEK) }

func receiveFlagged(fd int, p []byte, flags uintptr) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags|syscall.MSG_DONTWAIT, 0, 0)
		switch errno {
		case syscall.EINTR:
		case 0:
			return int(n), nil
		default:
			return 0, errno
		}
	}
}
