package socket

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/net/nettest"
	"golang.org/x/sys/unix"
)

// listening is a socket, and what connects to it.
func listening(t testing.TB, network string) (*Listening, func() net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	switch network {
	case "tcp6":
		address = "[::1]:0"
	case "unix":
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skip(err)
	}
	s, err := Listen(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, func() net.Conn {
		far, err := net.Dial(network, s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = far.Close() })
		return far
	}
}

// accepted is a connection that was accepted, and the client's end.
func accepted(t testing.TB, network string) (*Stream, net.Conn) {
	t.Helper()
	s, dial := listening(t, network)
	far := dial()
	near, err := s.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close() })
	return near, far
}

// TestAcceptedIsAConn runs what holds for every net.Conn.
func TestAcceptedIsAConn(t *testing.T) {
	for _, network := range []string{"tcp", "tcp6", "unix"} {
		t.Run(network, func(t *testing.T) {
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				near, far := accepted(t, network)
				return near, far, func() { _, _ = near.Close(), far.Close() }, nil
			})
		})
	}
}

// TestAcceptedAddresses are those of the client's end, the other way round.
func TestAcceptedAddresses(t *testing.T) {
	for _, network := range []string{"tcp", "tcp6"} {
		near, far := accepted(t, network)
		if near.RemoteAddr().String() != far.LocalAddr().String() || near.LocalAddr().String() != far.RemoteAddr().String() {
			t.Errorf("%v to %v, the client says %v to %v", near.RemoteAddr(), near.LocalAddr(), far.LocalAddr(), far.RemoteAddr())
		}
		if got := PeerOf(near); got.String() != far.LocalAddr().String() {
			t.Errorf("the peer is %v", got)
		}
	}
	near, _ := accepted(t, "unix")
	if got := PeerOf(near); got != (netip.AddrPort{}) {
		t.Errorf("the peer of a unix socket is %v", got)
	}
}

// TestPeerIsUnmapped names a client of IPv4 as one, also on a socket of both.
func TestPeerIsUnmapped(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen(l)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	far, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", s.Addr().(*net.TCPAddr).Port))
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := s.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	if got := PeerOf(near).Addr(); !got.Is4() {
		t.Errorf("the peer is %v", got)
	}
}

// TestServedUnknown has the poller not hear of a client that says all at once.
func TestServedUnknown(t *testing.T) {
	near, far := accepted(t, "tcp")
	send(t, far, []byte("only\n"))
	readable(t, near.fd)
	_, done := watchEcho(t, New(near), func(e *echo) {
		answer := e.line
		e.line = func(line []byte) bool { answer(line); return false }
	})
	expect(t, far, "only\n")
	<-done
	if near.known.Load() != nil {
		t.Error("the poller knows it")
	}
	if n, err := far.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d, %v, want the end", n, err)
	}
}

func readable(t *testing.T, fd int) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 10_000)
		if err == unix.EINTR {
			continue
		}
		if n != 1 || err != nil {
			t.Fatalf("nothing came: %d, %v", n, err)
		}
		return
	}
}

// TestCloseWaitsForWhoHolds keeps the number of a descriptor from being given to
// another while somebody uses it, and closes it once.
func TestCloseWaitsForWhoHolds(t *testing.T) {
	near, far := accepted(t, "tcp")
	raw, err := near.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		if err := near.Close(); err != nil {
			t.Error(err)
		}
		if _, err := unix.Getsockname(int(fd)); err != nil {
			t.Errorf("closed while it is used: %v", err)
		}
	})
	if err != nil {
		t.Error(err)
	}
	if n, err := far.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d, %v, want the end", n, err)
	}
	other, err := unix.Open("/", unix.O_RDONLY|unix.O_CLOEXEC, 0) // takes the number
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	if err := near.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
	if err := raw.Control(func(uintptr) { t.Error("used after Close") }); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(other, &stat); err != nil {
		t.Errorf("another's descriptor was closed: %v", err)
	}
}

// TestNobodyHoldsWhatIsOver: who is woken by Close before it has let go does not wait
// again.
func TestNobodyHoldsWhatIsOver(t *testing.T) {
	near, _ := accepted(t, "tcp")
	near.over.Store(true)
	if near.hold() {
		t.Error("held")
	}
	near.over.Store(false)
}

// TestAcceptedRaces uses, introduces and closes a connection from everywhere.
func TestAcceptedRaces(t *testing.T) {
	s, dial := listening(t, "tcp")
	for range 50 {
		far := dial()
		near, err := s.Accept()
		if err != nil {
			t.Fatal(err)
		}
		send(t, far, []byte("x"))
		raw, _ := near.SyscallConn()
		var all sync.WaitGroup
		for _, do := range []func(){
			func() { _, _ = near.Read(make([]byte, 1)) },
			func() { _ = raw.Read(func(fd uintptr) bool { return false }) },
			func() { _ = raw.Control(func(fd uintptr) { _, _ = unix.Getsockname(int(fd)) }) },
			func() { _ = near.SetReadDeadline(past) },
			func() { _ = near.CloseWrite() },
			func() { _ = near.Close() },
		} {
			all.Go(do)
		}
		all.Wait()
		_ = far.Close()
	}
}

// TestAcceptErrors tells what is over from what may pass.
func TestAcceptErrors(t *testing.T) {
	s, dial := listening(t, "tcp")
	if _, err := s.AcceptNow(); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("%v, want EAGAIN", err)
	}
	if err := s.SetDeadline(past); err != nil {
		t.Fatal(err)
	}
	dial()
	if _, err := s.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("accepts after the deadline: %v", err)
	}
	near, err := s.AcceptNow()
	if err != nil {
		t.Fatal(err)
	}
	_ = near.Close()
	_ = s.Close()
	if _, err := s.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepts when closed: %v", err)
	}
}

// TestDoorLetsIn who says something, leaves, or is silent for long; each once.
func TestDoorLetsIn(t *testing.T) {
	for name, do := range map[string]func(far net.Conn){
		"says something": func(far net.Conn) { _, _ = far.Write([]byte("x")) },
		"leaves":         func(far net.Conn) { _ = far.Close() },
		"is silent":      func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			d := door(t)
			near, far := accepted(t, "tcp")
			entered := make(chan struct{}, 2)
			d.Await(near, func() { entered <- struct{}{} })
			do(far)
			<-entered
			_, _ = far.Write([]byte("more"))
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if len(entered) > 0 {
				t.Error("entered again")
			}
		})
	}
}

func door(t *testing.T) *Door {
	t.Helper()
	d, err := NewDoor()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !d.closed {
			_ = d.Close()
		}
	})
	return d
}

// TestDoorCloses lets in who is there, and who comes later.
func TestDoorCloses(t *testing.T) {
	d := door(t)
	var entered atomic.Int32
	enter := func() { entered.Add(1) }
	for range 3 {
		near, _ := accepted(t, "tcp")
		d.Await(near, enter)
	}
	if err := d.Close(); err != nil || entered.Load() != 3 {
		t.Errorf("%d of 3 have entered, %v", entered.Load(), err)
	}
	near, _ := accepted(t, "tcp")
	if d.Await(near, enter); entered.Load() != 4 {
		t.Errorf("%d of 4 have entered", entered.Load())
	}
}

// TestDoorIsBounded lets in at once who finds no place.
func TestDoorIsBounded(t *testing.T) {
	d := door(t)
	d.guests = make([]guest, maxGuests)
	near, _ := accepted(t, "tcp")
	entered := false
	if d.Await(near, func() { entered = true }); !entered {
		t.Error("waits without a place")
	}
	d.free = append(d.free, 5)
	near, far := accepted(t, "tcp")
	came := make(chan struct{})
	d.Await(near, func() { close(came) })
	send(t, far, []byte("x"))
	<-came
}

// TestDoorIgnoresThePast: what was said of one who had the place before is not
// taken for a word of who has it now.
func TestDoorIgnoresThePast(t *testing.T) {
	d := &Door{sweeps: true} // by nobody
	first, second := 0, 0
	place, visit, _ := d.seat(func() { first++ })
	d.letIn(place, visit)
	again, next, _ := d.seat(func() { second++ })
	d.letIn(place, visit)
	if again != place || first != 1 || second != 0 {
		t.Errorf("places %d and %d, %d and %d have entered", place, again, first, second)
	}
	if d.letIn(again, next); second != 1 {
		t.Error("the second was not let in")
	}
}

// TestForgotten has the door's poller let go of those whom the runtime's knows.
func TestForgotten(t *testing.T) {
	d := door(t)
	near, far := accepted(t, "tcp")
	came := make(chan struct{})
	d.Await(near, func() { close(came) })
	send(t, far, []byte("x"))
	<-came
	if _, err := near.introduce(); err != nil {
		t.Fatal(err)
	}
	if d.tell(near, unix.EPOLL_CTL_DEL, 0, 0) {
		t.Error("the door's poller still knew it")
	}
}
