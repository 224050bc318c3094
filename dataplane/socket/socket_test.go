package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is both ends of a TCP connection.
func pair(t testing.TB) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := New(near)
	t.Cleanup(func() { _ = c.Close(); c.Discard(); _ = far.Close() })
	return c, far.(*net.TCPConn)
}

func send(t testing.TB, c net.Conn, data []byte) {
	t.Helper()
	if _, err := c.Write(data); err != nil {
		t.Fatal(err)
	}
}

// TestFill grows a buffer up to its bound and keeps what was not consumed.
func TestFill(t *testing.T) {
	c, far := pair(t)
	data := bytes.Repeat([]byte("0123456789"), LargeBuffer/10+1)[:LargeBuffer]
	go func() { _, _ = far.Write(data) }()
	for len(c.Buffered()) < LargeBuffer {
		if err := c.Fill(0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(c.Buffered(), data) {
		t.Error("the bytes are not those that were sent")
	}
	if err := c.Fill(0, 0); !errors.Is(err, ErrFull) {
		t.Errorf("%v, want ErrFull", err)
	}
	c.Consume(LargeBuffer - 3)
	send(t, far, []byte("abc"))
	if err := c.Fill(0, 0); err != nil || string(c.Buffered()) != string(data[LargeBuffer-3:])+"abc" {
		t.Errorf("%q, %v", c.Buffered(), err)
	}
	c.Release()
	if len(c.Buffered()) != 6 {
		t.Error("Release took unread bytes")
	}
}

// TestNoBufferWhileWaiting holds a buffer only while there are bytes in it.
func TestNoBufferWhileWaiting(t *testing.T) {
	c, far := pair(t)
	if err := c.Fill(0, Now()+int64(time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) || c.in != nil {
		t.Errorf("%v, and a buffer: %t", err, c.in != nil)
	}
	send(t, far, []byte("x"))
	if err := c.Fill(0, 0); err != nil || len(c.in) != SmallBuffer {
		t.Errorf("%v, and a buffer of %d", err, len(c.in))
	}
	c.Consume(1)
	c.Release()
	if c.in != nil {
		t.Error("a buffer is held")
	}
}

// TestDeadlines: an earlier deadline of a wait that is over does not end the
// next one.
func TestDeadlines(t *testing.T) {
	c, far := pair(t)
	soon := func() int64 { return Now() + int64(5*time.Millisecond) }
	if err := c.Fill(0, soon()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%v, want a deadline", err)
	}
	for _, deadline := range []int64{soon(), Now() + int64(time.Hour), 0} {
		done := make(chan error)
		go func() { done <- c.Fill(0, deadline) }()
		if deadline != 0 && deadline < Now()+int64(time.Minute) {
			if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%v, want a deadline", err)
			}
			continue
		}
		send(t, far, []byte("x"))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		c.Consume(1)
	}
}

// TestFillReady takes what is there, and does not wait for more.
func TestFillReady(t *testing.T) {
	c, far := pair(t)
	if n := c.FillReady(); n != 0 {
		t.Errorf("%d bytes without a buffer", n)
	}
	send(t, far, []byte("ab"))
	if err := c.Fill(0, 0); err != nil {
		t.Fatal(err)
	}
	if n := c.FillReady(); n != 0 {
		t.Errorf("%d bytes out of nothing", n)
	}
	send(t, far, []byte("cd"))
	await(t, c, Readable)
	if n := c.FillReady(); n != 2 || string(c.Buffered()) != "abcd" {
		t.Errorf("%d, %q", n, c.Buffered())
	}
	_ = far.Close()
	await(t, c, Ended)
	if n, err := c.FillReady(), c.Fill(0, 0); n != 0 || err != io.EOF {
		t.Errorf("%d, %v at the end", n, err)
	}
}

// TestWriteNow writes what there is room for, and says nothing of what goes wrong.
func TestWriteNow(t *testing.T) {
	c, far := pair(t)
	if n := c.WriteNow([]byte("now")); n != 3 {
		t.Errorf("%d bytes", n)
	}
	expect(t, far, "now")
	for total := 0; c.WriteNow(make([]byte, LargeBuffer)) == LargeBuffer; {
		if total += LargeBuffer; total > 1<<30 {
			t.Fatal("there is room for everything")
		}
	}
	_ = c.Close()
	if n := c.WriteNow([]byte("x")); n != 0 {
		t.Errorf("%d bytes after Close", n)
	}
}

// TestWriteDeadline says how much was taken, and goes on after.
func TestWriteDeadline(t *testing.T) {
	c, far := pair(t)
	data := bytes.Repeat([]byte("x"), 16<<20)
	n, err := c.Write(data, Now()+int64(20*time.Millisecond))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == len(data) {
		t.Fatalf("%d, %v", n, err)
	}
	read := make(chan int64)
	go func() {
		got, _ := io.Copy(io.Discard, far)
		read <- got
	}()
	half := (n + len(data)) / 2
	m, err := c.Write(data[n:half], 0)
	if err != nil || n+m != half {
		t.Errorf("%d and %d, %v without a deadline", n, m, err)
	}
	if m, err = c.Write(data[half:], Now()+int64(time.Minute)); err != nil || half+m != len(data) {
		t.Errorf("%d and %d, %v", half, m, err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Error(err)
	}
	if got := <-read; got != int64(len(data)) {
		t.Errorf("%d bytes arrived", got)
	}
}

// TestInterrupt ends the wait under way and those that follow, until Resume.
func TestInterrupt(t *testing.T) {
	for _, deadline := range []int64{0, Now() + int64(time.Hour)} {
		c, far := pair(t)
		done := make(chan error)
		go func() { done <- c.Fill(0, deadline) }()
		c.Interrupt()
		if err := <-done; !errors.Is(err, ErrInterrupted) {
			t.Fatalf("%v, want ErrInterrupted", err)
		}
		if err := c.Fill(0, deadline); !errors.Is(err, ErrInterrupted) {
			t.Errorf("%v, want ErrInterrupted again", err)
		}
		c.Resume()
		send(t, far, []byte("x"))
		if err := c.Fill(0, deadline); err != nil || string(c.Buffered()) != "x" {
			t.Errorf("%q, %v", c.Buffered(), err)
		}
	}
}

// TestPeek tells what a look at a connection shows. The wait is Fill's, so that
// what was sent has arrived.
func TestPeek(t *testing.T) {
	c, far := pair(t)
	if s := c.Peek(); s != Quiet {
		t.Errorf("%v of a quiet one", s)
	}
	send(t, far, []byte("ab"))
	await(t, c, Readable)
	if err := c.Fill(0, 0); err != nil || string(c.Buffered()) != "ab" {
		t.Errorf("Peek took bytes: %q, %v", c.Buffered(), err)
	}
	_ = far.CloseWrite()
	await(t, c, Ended)
	_ = c.Close()
	if s := c.Peek(); s != Ended {
		t.Errorf("%v of a closed one", s)
	}
}

// TestPeekReset: unread bytes do not hide that the peer has broken off.
func TestPeekReset(t *testing.T) {
	c, far := pair(t)
	send(t, far, []byte("ab"))
	await(t, c, Readable)
	_ = far.SetLinger(0)
	_ = far.Close()
	await(t, c, Ended)
}

func await(t *testing.T, c *Conn, want State) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); c.Peek() != want; {
		if time.Now().After(end) {
			t.Fatalf("%v, want %v", c.Peek(), want)
		}
	}
}

// TestEnds tells an orderly end from a reset.
func TestEnds(t *testing.T) {
	c, far := pair(t)
	_ = far.Close()
	if err := c.Fill(0, 0); err != io.EOF {
		t.Errorf("%v, want EOF", err)
	}
	c, far = pair(t)
	_ = far.SetLinger(0)
	_ = far.Close()
	if err := c.Fill(0, 0); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, want ECONNRESET", err)
	}
}

// TestPipe is a connection that is not a socket.
func TestPipe(t *testing.T) {
	near, far := net.Pipe()
	c := New(near)
	defer c.Close()
	go func() { _, _ = far.Write([]byte("x")); _ = far.Close() }()
	if err := c.Fill(0, 0); err != nil || string(c.Buffered()) != "x" {
		t.Errorf("%q, %v", c.Buffered(), err)
	}
	if err := c.Fill(0, 0); err != io.EOF {
		t.Errorf("%v, want EOF", err)
	}
	c.Discard()
}

func BenchmarkPeek(b *testing.B) {
	c, _ := pair(b)
	for b.Loop() {
		if c.Peek() != Quiet {
			b.Fatal("not quiet")
		}
	}
}
