package socket

import (
	"io"
	"net"
	"os"
	"syscall"
)

// wire reads and writes a socket by the calls of raw.go, and waits as the net
// package does. What it saves is to tell the scheduler of each call: that costs
// something by itself, and at low load it wakes the runtime's monitor for each
// request, a thread that has nothing to do.
type wire struct {
	raw syscall.RawConn // nil: there is no such thing

	// Owned by the reader.
	receive   func(fd uintptr) bool
	into      []byte
	received  int
	readFault error

	// Owned by the writer.
	transmit func(fd uintptr)
	from     []byte
	sent     int
	shared   bool // from may wait for others
	parcel   parcel
	others   bool // the last write was done by another, while others ran
}

// wireOf is the wire of a TCP or unix connection; that of another has no raw.
func wireOf(c net.Conn) wire {
	switch c.(type) {
	case *Stream, *net.TCPConn, *net.UnixConn:
		if raw, err := c.(syscall.Conn).SyscallConn(); err == nil {
			return wire{raw: raw}
		}
	}
	return wire{}
}

// read waits for bytes and reads them into p. The end is io.EOF.
func (w *wire) read(p []byte) (int, error) {
	if w.receive == nil {
		w.receive = w.receiveOnce
	}
	w.into = p
	err := w.raw.Read(w.receive)
	w.into = nil
	if err != nil {
		return 0, err
	}
	return w.received, w.readFault
}

// receiveOnce is called when the wait begins, and then whenever there is
// something to read. It reports true to end the waiting.
func (w *wire) receiveOnce(fd uintptr) bool {
	n, err := readNow(int(fd), w.into)
	w.received, w.readFault = n, nil
	switch {
	case err == syscall.EAGAIN:
		return false
	case err != nil:
		w.readFault = os.NewSyscallError("read", err)
	case n == 0 && len(w.into) > 0:
		w.readFault = io.EOF
	}
	return true
}

// write writes what there is room for, and reports how much that was. An error
// comes again at the next write. shared says that it may go out together with what
// others write.
func (w *wire) write(p []byte, shared bool) int {
	if w.raw == nil {
		return 0
	}
	if w.transmit == nil {
		w.transmit = func(fd uintptr) { w.sent, _ = w.send(int(fd), w.from, w.shared) }
	}
	w.from, w.shared, w.sent = p, shared, 0
	err := w.raw.Control(w.transmit)
	w.from = nil
	if err != nil {
		return 0
	}
	return w.sent
}

// send is write for who holds the descriptor.
func (w *wire) send(fd int, p []byte, shared bool) (n int, err error) {
	if !shared || len(p) > parcelBytes {
		w.others = false
		return sendNow(fd, p)
	}
	n, w.others, err = w.parcel.post(fd, p)
	return n, err
}
