package socket

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/certificate/testca"
)

// secured is a TLS server's end as a Conn, and the client's as TLS and TCP.
func secured(t testing.TB) (*Conn, *tls.Conn, *net.TCPConn) {
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
	_ = near.(*net.TCPConn).SetWriteBuffer(64 << 10)
	_ = far.(*net.TCPConn).SetReadBuffer(64 << 10)
	c, client := secure(t, near, far)
	return c, client, far.(*net.TCPConn)
}

// secure makes a connection one of TLS: the server's end as a Conn, and the client's.
func secure(t testing.TB, near, far net.Conn) (*Conn, *tls.Conn) {
	t.Helper()
	c, client, err := newTrust(t).secure(near, far)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close(); _ = c.Close(); c.Discard() })
	return c, client
}

// trust is how both ends of TLS are set up.
type trust struct{ server, client *tls.Config }

func newTrust(t testing.TB) trust {
	t.Helper()
	ca := testca.New(t, "authority")
	pair := ca.Issue([]string{"a.example"}).TLS(t)
	return trust{
		&tls.Config{Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true},
		&tls.Config{RootCAs: ca.Pool(), ServerName: "a.example", DynamicRecordSizingDisabled: true},
	}
}

func (s trust) secure(near, far net.Conn) (*Conn, *tls.Conn, error) {
	server, client := tls.Server(NewUnder(near), s.server), tls.Client(far, s.client)
	shaken := make(chan error, 1)
	go func() { shaken <- client.Handshake() }()
	err := errors.Join(server.Handshake(), <-shaken)
	return New(server), client, err
}

// A record that the peer sent is read whole, though nothing was held when it
// came.
func TestSecureFillTakesARecord(t *testing.T) {
	c, client, _ := secured(t)
	want := bytes.Repeat([]byte("headgate"), 1000)
	go func() { _, _ = client.Write(want) }()
	var got []byte
	for len(got) < len(want) {
		if err := c.Fill(0, 0); err != nil {
			t.Fatal(err)
		}
		if n := len(c.Buffered()); n == 1 {
			t.Fatal("one byte came alone")
		}
		got = append(got, c.Buffered()...)
		c.Consume(len(c.Buffered()))
		if c.Release(); c.in != nil {
			t.Fatal("a buffer is held with nothing in it")
		}
	}
	if !bytes.Equal(got, want) {
		t.Error("other bytes came")
	}
}

func TestSecureFillDeadline(t *testing.T) {
	c, client, _ := secured(t)
	if err := c.Fill(0, Now()+int64(time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("error %v", err)
	}
	if c.in != nil {
		t.Error("a buffer is held after a wait in vain")
	}
	if _, err := client.Write([]byte("later")); err != nil {
		t.Fatal(err)
	}
	if err := c.Fill(0, 0); err != nil || string(c.Buffered()) != "later" {
		t.Fatalf("%q, %v", c.Buffered(), err)
	}
}

// A deadline that passes in the middle of a record is no end of the connection,
// and a timer of an earlier write does not cut a later one short.
func TestSecureWriteGoesOnAfterADeadline(t *testing.T) {
	c, client, _ := secured(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 128<<10)
	rest, stalls := sent, 0
	for stalls < 3 {
		n, err := c.Write(rest, Now()+int64(time.Millisecond))
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		if rest = rest[n:]; err != nil {
			stalls++
		}
	}
	if len(c.under.pending) == 0 || len(c.under.pending) > maxPending {
		t.Errorf("%d bytes wait", len(c.under.pending))
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(rest, Now()+int64(time.Minute))
		wrote <- errors.Join(err, c.CloseWrite())
	}()
	got, err := io.ReadAll(client)
	if err := errors.Join(err, <-wrote); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came, and not those %d that were sent", len(got), len(sent))
	}
}

// What TLS has read ahead is no part of the next answer.
func TestSpentSeesWhatTLSHolds(t *testing.T) {
	c, client, _ := secured(t)
	if !c.Spent() {
		t.Error("a new connection is not spent")
	}
	for _, text := range []string{"one", "two"} {
		if _, err := client.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for waiting(t, c) < 2*(3+22) {
	}
	if err := c.Fill(0, 0); err != nil {
		t.Fatal(err)
	}
	c.Consume(3)
	if c.Spent() {
		t.Error("spent, with a record read ahead")
	}
}

// What TLS has read ahead is there, though reads are interrupted.
func TestFillAhead(t *testing.T) {
	c, client, _ := secured(t)
	if c.FillAhead() {
		t.Fatal("something was read ahead of nothing")
	}
	for _, text := range []string{"one", "two"} {
		if _, err := client.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for waiting(t, c) < 2*(3+22) {
	}
	if err := c.Fill(0, 0); err != nil {
		t.Fatal(err)
	}
	c.Consume(len(c.Buffered()))
	c.Release()
	c.Interrupt()
	if err := c.Fill(0, 0); !errors.Is(err, ErrInterrupted) {
		t.Fatalf("error %v", err)
	}
	if !c.FillAhead() || string(c.Buffered()) != "two" {
		t.Errorf("%q is there", c.Buffered())
	}
	if c.FillAhead() {
		t.Error("something is there twice")
	}
}

// waiting is how many bytes the kernel has for a connection.
func waiting(t testing.TB, c *Conn) (n int) {
	t.Helper()
	raw := underlyingRaw(c.Net())
	var buf [256]byte
	if err := raw.Control(func(fd uintptr) {
		n, _, _ = syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// A client that says goodbye and closes is gone, though its goodbye is unread.
func TestPeekSeesTheGoodbye(t *testing.T) {
	c, client, _ := secured(t)
	if got := c.Peek(); got != Quiet {
		t.Fatalf("state %v", got)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for c.Peek() == Quiet {
	}
	for c.Peek() == Readable {
	}
	if got := c.Peek(); got != Ended {
		t.Errorf("state %v", got)
	}
}

func TestPeekSeesARequest(t *testing.T) {
	c, client, far := secured(t)
	if _, err := client.Write(bytes.Repeat([]byte("x"), goodbye)); err != nil {
		t.Fatal(err)
	}
	if err := far.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for c.Peek() == Quiet {
	}
	if got := c.Peek(); got != Readable {
		t.Errorf("state %v", got)
	}
}

// What is cut does not look finished.
func TestAbortIsNoEnd(t *testing.T) {
	c, client, _ := secured(t)
	if _, err := c.Write([]byte("half of"), 0); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 7)
	if _, err := io.ReadFull(client, got); err != nil {
		t.Fatal(err)
	}
	c.Abort()
	if _, err := client.Read(got); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("error %v", err)
	}
}

// An end that was not announced is none: whoever is on the way could make it.
func TestUnannouncedEnd(t *testing.T) {
	c, client, far := secured(t)
	if _, err := client.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	if err := far.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Fill(0, 0); err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("error %v", err)
			}
			break
		}
	}
	if string(c.Buffered()) != "half" {
		t.Errorf("%q came", c.Buffered())
	}
	c, client, _ = secured(t)
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := c.Fill(0, 0); err != io.EOF {
		t.Fatalf("error %v", err)
	}
}

func TestCloseIsAnEnd(t *testing.T) {
	c, client, _ := secured(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(client); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}
