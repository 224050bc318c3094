package socket

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
)

// descriptor is that of a connection that lives as long as the test.
func descriptor(tb testing.TB, c *Conn) int {
	tb.Helper()
	var out int
	if err := c.raw.Control(func(fd uintptr) { out = int(fd) }); err != nil {
		tb.Fatal(err)
	}
	return out
}

// What many put into an outbox at the same time arrives, each at its own peer,
// all of it, in order, and once.
func TestOutbox(t *testing.T) {
	const senders, rounds = 2 * outboxFull, 50
	var wg sync.WaitGroup
	for range senders {
		c, far := pair(t)
		fd := descriptor(t, c)
		wg.Go(func() {
			for i := range rounds {
				n, err := c.wire.send(fd, binary.BigEndian.AppendUint32(nil, uint32(i)), true)
				if n != 4 || err != nil {
					t.Errorf("round %d: %d, %v", i, n, err)
				}
			}
			_ = c.CloseWrite()
		})
		wg.Go(func() { checkRounds(t, far, rounds) })
	}
	wg.Wait()
}

func checkRounds(t *testing.T, far net.Conn, rounds int) {
	got, err := io.ReadAll(far)
	var want []byte
	for i := range rounds {
		want = binary.BigEndian.AppendUint32(want, uint32(i))
	}
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// They are written in the order in which they came; one that fails or finds no
// room says so and holds up nobody.
func TestOutboxOrder(t *testing.T) {
	var out outbox
	near, far := pair(t)
	full, _ := pair(t)
	fill(t, descriptor(t, full))
	parcels := []*parcel{
		{fd: descriptor(t, near), bytes: []byte("a")},
		{fd: descriptor(t, full), bytes: []byte("b")},
		{fd: -1, bytes: []byte("c")},
		{fd: descriptor(t, near), bytes: []byte("d")},
	}
	for _, p := range parcels {
		out.put(p)
	}
	out.flush()
	if out.first != nil || out.last != nil || out.n != 0 {
		t.Errorf("%d are left in the outbox", out.n)
	}
	for i, want := range []error{nil, syscall.EAGAIN, syscall.EBADF, nil} {
		p := parcels[i]
		if !p.done.Load() || p.err != want || p.n != len(p.bytes) && want == nil {
			t.Errorf("%d: %v, %d, %v, want %v", i, p.done.Load(), p.n, p.err, want)
		}
	}
	got := make([]byte, 2)
	if _, err := io.ReadFull(far, got); err != nil || string(got) != "ad" {
		t.Errorf("%q, %v", got, err)
	}
}

// fill writes until there is no more room, and returns how much that was.
func fill(t *testing.T, fd int) (written int) {
	t.Helper()
	chunk := make([]byte, 64<<10)
	for {
		n, err := sendNow(fd, chunk)
		if err == syscall.EAGAIN {
			return written
		} else if err != nil {
			t.Fatal(err)
		}
		written += n
	}
}

// It says when it is full; whoever hears that lets nobody run first.
func TestOutboxFull(t *testing.T) {
	var out outbox
	for i := range outboxFull {
		if room := out.put(new(parcel)); room != (i < outboxFull-1) {
			t.Fatalf("room for more than %d: %v", i+1, room)
		}
	}
}
