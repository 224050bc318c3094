package socket

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// pipeSize is how much a pipe is asked to hold, in bytes. The kernel may
	// give less.
	pipeSize = 256 << 10
	// sparePipes bounds the pipes that wait to be used again.
	sparePipes = 64
)

// Pipe carries bytes from one socket to another without bringing them into the
// process: the kernel passes them by reference, as far as it can (splice(2)).
type Pipe struct {
	r, w int
	held int

	// The call into the poller that is under way.
	n       int // at most
	moved   int
	fault   error
	in, out func(fd uintptr) bool
}

var pipes struct {
	sync.Mutex
	spare []*Pipe // all empty
}

// NewPipe makes a pipe, or takes one that was used before.
func NewPipe() (*Pipe, error) {
	if p := sparePipe(); p != nil {
		return p, nil
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	_, _ = unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, pipeSize)
	p := &Pipe{r: ends[0], w: ends[1]}
	p.in = func(fd uintptr) bool { return p.splice(int(fd), p.w) }
	p.out = func(fd uintptr) bool { return p.splice(p.r, int(fd)) }
	return p, nil
}

func sparePipe() *Pipe {
	pipes.Lock()
	defer pipes.Unlock()
	last := len(pipes.spare) - 1
	if last < 0 {
		return nil
	}
	p := pipes.spare[last]
	pipes.spare = pipes.spare[:last]
	return p
}

// Close lets the pipe go with what is in it.
func (p *Pipe) Close() {
	pipes.Lock()
	kept := p.held == 0 && len(pipes.spare) < sparePipes
	if kept {
		pipes.spare = append(pipes.spare, p)
	}
	pipes.Unlock()
	if !kept {
		_ = unix.Close(p.r)
		_ = unix.Close(p.w)
	}
}

// Spliceable reports whether a Pipe can take from the connection and give to it:
// it is a plain socket.
func (c *Conn) Spliceable() bool { return c.try != nil }

// Take waits for bytes of the peer and takes at most n of them. Nothing may be
// buffered, and the pipe must be empty. Errors are those of Fill; the deadline is
// a time of Now, or 0 for none.
func (p *Pipe) Take(c *Conn, n int64, deadline int64) error {
	p.n = int(min(n, pipeSize))
	for {
		if err := c.armRead(deadline); err != nil {
			return err
		}
		err := p.call(c.raw.Read, p.in)
		p.held = p.moved
		switch {
		case err == nil && p.moved == 0:
			return io.EOF
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		c.readArmed = fired
		if deadline != 0 && Now() >= deadline {
			return err
		}
	}
}

// Give gives all that was taken to the peer and returns how much that was. The
// errors are those of Write.
func (p *Pipe) Give(c *Conn, deadline int64) (given int, err error) {
	for p.held > 0 {
		if err := c.armWrite(deadline); err != nil {
			return given, err
		}
		p.n = p.held
		err := p.call(c.raw.Write, p.out)
		given += p.moved
		p.held -= p.moved
		switch {
		case err == nil:
			continue
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return given, err
		}
		c.writeArmed = fired
		if deadline != 0 && Now() >= deadline {
			return given, err
		}
	}
	return given, nil
}

// call has the poller call splice until something has moved.
func (p *Pipe) call(poll func(func(fd uintptr) bool) error, splice func(fd uintptr) bool) error {
	p.moved, p.fault = 0, nil
	if err := poll(splice); err != nil {
		return err
	}
	if p.fault != nil {
		return os.NewSyscallError("splice", p.fault)
	}
	return nil
}

// splice moves what can be moved, and reports false if that is nothing yet.
func (p *Pipe) splice(from, to int) bool {
	p.moved, p.fault = ignoringEINTR(func() (int, error) {
		m, err := unix.Splice(from, nil, to, nil, p.n, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		return int(max(m, 0)), err
	})
	return p.fault != syscall.EAGAIN
}

func ignoringEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != syscall.EINTR {
			return n, err
		}
	}
}
