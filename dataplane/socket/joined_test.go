package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// joined is a connection that goroutines wait for by the poller of l, and the peer's
// end.
func joined(t testing.TB, l *Loop, network string) (*Stream, net.Conn) {
	t.Helper()
	near, far := accepted(t, network)
	New(near).Join(l)
	if near.loop.Load() != l {
		t.Fatal("the loop does not know it")
	}
	return near, far
}

// awaitWaiter waits until somebody waits at a slot.
func awaitWaiter(s *slot) {
	for w := s.who.Load(); w == nil || w == arrived; w = s.who.Load() {
		runtime.Gosched()
	}
}

// TestJoinedIsAConn runs what holds for every net.Conn.
func TestJoinedIsAConn(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			l := newLoop(t)
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				near, far := joined(t, l, network)
				return near, far, func() { _, _ = near.Close(), far.Close() }, nil
			})
		})
	}
}

// TestOwnedIsAConn runs the same with both ends in a loop, one of them dialled.
func TestOwnedIsAConn(t *testing.T) {
	l := newLoop(t)
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		near, far := joined(t, l, "tcp")
		c, err := Own(far)
		if err != nil {
			return nil, nil, nil, err
		}
		New(c).Join(l)
		return c, near, func() { _, _ = near.Close(), c.Close() }, nil
	})
}

// TestOwnLeavesOthers as they are, and closes what it takes over.
func TestOwnLeavesOthers(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if got, err := Own(near); got != near || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	a, _ := accepted(t, "tcp")
	if got, err := Own(a); got != net.Conn(a) || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	_, dialled := accepted(t, "tcp")
	peer := PeerOf(dialled)
	got, err := Own(dialled)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if PeerOf(got) != peer {
		t.Errorf("the peer is %v, was %v", PeerOf(got), peer)
	}
	if err := dialled.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the old one was open: %v", err)
	}
	if _, err := Own(dialled); err == nil {
		t.Error("one that is closed was taken over")
	}
}

// TestJoinedManyRead: of what comes at once each of several readers gets some, though
// it is told of once.
func TestJoinedManyRead(t *testing.T) {
	near, far := joined(t, newLoop(t), "tcp")
	const readers = 4
	got := make(chan byte, readers)
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			var one [1]byte
			if _, err := near.Read(one[:]); err != nil {
				t.Error(err)
			}
			got <- one[0]
		})
	}
	awaitWaiter(&near.in)
	send(t, far, []byte("abcd"))
	all.Wait()
	close(got)
	var bytes []byte
	for b := range got {
		bytes = append(bytes, b)
	}
	if slices.Sort(bytes); string(bytes) != "abcd" {
		t.Errorf("%q came", bytes)
	}
}

// waits are the two ways to wait for a connection that a loop knows.
var waits = map[string]struct {
	at func(*Stream) *slot
	do func(*Stream) error
}{
	"to read": {
		at: func(a *Stream) *slot { return &a.in },
		do: func(a *Stream) error { _, err := a.Read(make([]byte, 1)); return err },
	},
	"to write": {
		at: func(a *Stream) *slot { return &a.out },
		do: func(a *Stream) error {
			for {
				if _, err := a.Write(make([]byte, 1<<20)); err != nil {
					return err
				}
			}
		},
	},
}

// TestJoinedWaitEnds by another goroutine: by a Close, by a deadline that is past or to
// come, and by one that was there before.
func TestJoinedWaitEnds(t *testing.T) {
	soon := func() time.Time { return time.Now().Add(time.Millisecond) }
	for name, wait := range waits {
		for how, test := range map[string]struct {
			before, end func(*Stream) error
			want        error
		}{
			"Close":              {end: (*Stream).Close, want: net.ErrClosed},
			"past":               {end: func(a *Stream) error { return a.SetDeadline(past) }, want: os.ErrDeadlineExceeded},
			"soon":               {end: func(a *Stream) error { return a.SetDeadline(soon()) }, want: os.ErrDeadlineExceeded},
			"sooner":             {before: func(a *Stream) error { return a.SetDeadline(time.Now().Add(time.Hour)) }, end: func(a *Stream) error { return a.SetDeadline(soon()) }, want: os.ErrDeadlineExceeded},
			"to the runtime's":   {before: func(a *Stream) error { return a.SetDeadline(time.Now().Add(200 * time.Millisecond)) }, end: depart, want: os.ErrDeadlineExceeded},
			"Close after Depart": {end: func(a *Stream) error { return errors.Join(depart(a), a.Close()) }, want: net.ErrClosed},
			"after the loop":     {end: afterTheLoop, want: os.ErrDeadlineExceeded},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				near, _ := joined(t, newLoop(t), "tcp")
				if test.before != nil {
					if err := test.before(near); err != nil {
						t.Fatal(err)
					}
				}
				done := make(chan error)
				go func() { done <- wait.do(near) }()
				awaitWaiter(wait.at(near))
				if err := test.end(near); err != nil {
					t.Error(err)
				}
				if err := <-done; !errors.Is(err, test.want) {
					t.Errorf("%v, want %v", err, test.want)
				}
			})
		}
	}
}

// afterTheLoop sets a deadline when the loop is over that knew the connection.
func afterTheLoop(a *Stream) error {
	l := a.loop.Load()
	l.Close()
	<-l.ended
	return a.SetDeadline(past)
}

func depart(a *Stream) error {
	New(a).Depart()
	return nil
}

// TestJoinedMoves has the poller of another loop wake those who wait, or the
// runtime's.
func TestJoinedMoves(t *testing.T) {
	for name, move := range map[string]func(t *testing.T, a *Stream){
		"to another loop":  func(t *testing.T, a *Stream) { newLoop(t).join(a) },
		"to the runtime's": func(_ *testing.T, a *Stream) { _ = depart(a) },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := joined(t, newLoop(t), "tcp")
			written := make(chan error)
			go func() {
				_, err := near.Write(make([]byte, 16<<20))
				written <- err
			}()
			awaitWaiter(&near.out)
			read := make(chan error)
			go func() {
				_, err := near.Read(make([]byte, 1))
				read <- err
			}()
			awaitWaiter(&near.in)
			move(t, near)
			send(t, far, []byte("x"))
			if err := <-read; err != nil {
				t.Error(err)
			}
			go func() { _, _ = io.CopyN(io.Discard, far, 16<<20) }()
			if err := <-written; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestJoinedRaces waits, moves and closes from everywhere.
func TestJoinedRaces(t *testing.T) {
	one, other := newLoop(t), newLoop(t)
	s, dial := listening(t, "tcp")
	for range 100 {
		far := dial()
		near, err := s.Accept()
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for _, do := range []func(){
			func() { _, _ = near.Read(make([]byte, 1)) },
			func() { _, _ = near.Write([]byte("x")) },
			func() { _, _ = far.Write([]byte("x")) },
			func() { _ = near.SetDeadline(time.Now().Add(time.Minute)) },
			func() { one.join(near) },
			func() { other.join(near) },
			func() { runtime.Gosched(); _ = near.Close() },
		} {
			all.Go(do)
		}
		all.Wait()
		_ = far.Close()
	}
	for _, l := range []*Loop{one, other} {
		l.mu.Lock()
		if len(l.free) != len(l.seats) {
			t.Errorf("%d of %d seats are taken, of connections that are closed", len(l.seats)-len(l.free), len(l.seats))
		}
		l.mu.Unlock()
	}
}

// TestDepartKeepsDeadlines that were set while a loop's poller knew the connection.
func TestDepartKeepsDeadlines(t *testing.T) {
	for name, wait := range waits {
		near, _ := joined(t, newLoop(t), "tcp")
		if err := near.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_ = depart(near)
		if near.known.Load() == nil || near.loop.Load() != nil {
			t.Error("it has not departed")
		}
		if err := wait.do(near); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
