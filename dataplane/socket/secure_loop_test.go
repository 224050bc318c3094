package socket

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// secureClient is a connection over TLS that l serves as an echo, and the peer's end.
func secureClient(t testing.TB, l *Loop, change func(*echo)) (*echo, *tls.Conn) {
	t.Helper()
	c, client, _ := securedFor(t, l)
	e, _ := attendEcho(t, l, c, change)
	return e, client
}

// TestSecureRestsWithoutGoroutines: of many connections over TLS that have been served
// none costs a goroutine.
func TestSecureRestsWithoutGoroutines(t *testing.T) {
	const conns = 100
	l, trust := newLoop(t), newTrust(t)
	before := runtime.NumGoroutine()
	for range conns {
		near, far := accepted(t, "tcp")
		near.Join(l)
		c, client, err := trust.secure(near, far)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := attendEcho(t, l, c, asIs)
		<-e.rests
		send(t, client, []byte("x\n"))
		expect(t, client, "x\n")
		<-e.rests
	}
	if more := runtime.NumGoroutine() - before; more > conns/10 {
		t.Errorf("%d goroutines for %d connections that rest", more, conns)
	}
}

// gathering keeps what is written, as long as it is to, so that it leaves in one piece.
type gathering struct {
	net.Conn
	keeps bool
	kept  []byte
}

func (g *gathering) Write(p []byte) (int, error) {
	if !g.keeps {
		return g.Conn.Write(p)
	}
	g.kept = append(g.kept, p...)
	return len(p), nil
}

// gather is what do writes.
func (g *gathering) gather(t testing.TB, do func() error) []byte {
	t.Helper()
	g.keeps = true
	if err := do(); err != nil {
		t.Fatal(err)
	}
	g.keeps = false
	kept := g.kept
	g.kept = nil
	return kept
}

// gathered is secureClient whose records the test sends by itself.
func gathered(t testing.TB, l *Loop, change func(*echo)) (e *echo, client *tls.Conn, wire *gathering) {
	t.Helper()
	near, far := accepted(t, "tcp")
	near.Join(l)
	wire = &gathering{Conn: far}
	c, client := secure(t, near, wire)
	e, _ = attendEcho(t, l, c, change)
	return e, client, wire
}

// TestSecureInPieces: a record that comes byte by byte is served when it is whole, and
// between the bytes the connection rests.
func TestSecureInPieces(t *testing.T) {
	e, client, wire := gathered(t, newLoop(t), asIs)
	<-e.rests
	for _, line := range []string{"one\n", "two\n"} {
		record := wire.gather(t, func() error { _, err := io.WriteString(client, line); return err })
		for i := range record {
			send(t, wire, record[i:i+1])
			if i < len(record)-1 {
				<-e.rests
			}
		}
		expect(t, client, line)
		<-e.rests
	}
}

// TestSecureAtOnce: of what comes in one piece nothing is left unserved when the
// connection rests, not the rest of a record and not a whole one behind it; and the
// beginning of one more is waited for.
func TestSecureAtOnce(t *testing.T) {
	e, client, wire := gathered(t, newLoop(t), asIs)
	<-e.rests
	all := wire.gather(t, func() error {
		for _, text := range []string{"one\ntwo\n", "three\n", "four\n"} {
			if _, err := io.WriteString(client, text); err != nil {
				return err
			}
		}
		return nil
	})
	send(t, wire, all[:len(all)-3])
	expect(t, client, "one\ntwo\nthree\n")
	<-e.rests
	send(t, wire, all[len(all)-3:])
	expect(t, client, "four\n")
}

// TestSecureWithTheHandshake: what TLS has read behind the handshake is served, though
// the poller has told of it before.
func TestSecureWithTheHandshake(t *testing.T) {
	l, trust := newLoop(t), newTrust(t)
	near, far := accepted(t, "tcp")
	near.Join(l)
	wire := &gathering{Conn: far}
	trust.client.VerifyConnection = func(tls.ConnectionState) error {
		wire.keeps = true // what follows is the client's last word in the handshake
		return nil
	}
	server, client := tls.Server(NewUnder(near), trust.server), tls.Client(wire, trust.client)
	said := make(chan error, 1)
	go func() {
		_, err := io.WriteString(client, "early\n")
		if err == nil {
			_, err = far.Write(wire.kept)
		}
		wire.keeps = false
		said <- err
	}()
	if err := errors.Join(server.Handshake(), <-said); err != nil {
		t.Fatal(err)
	}
	attendEcho(t, l, New(server), asIs)
	expect(t, client, "early\n")
}

// TestSecureEnds: a client that ends TLS, or its stream, while its connection rests is
// gone, and is told the end of TLS in return.
func TestSecureEnds(t *testing.T) {
	for name, end := range map[string]func(client *tls.Conn, far net.Conn) error{
		"close_notify": func(client *tls.Conn, _ net.Conn) error { return client.CloseWrite() },
		"half closed":  func(_ *tls.Conn, far net.Conn) error { return far.(*net.TCPConn).CloseWrite() },
		"both": func(client *tls.Conn, far net.Conn) error {
			return errors.Join(client.CloseWrite(), far.(*net.TCPConn).CloseWrite())
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, client, far, done := announced(t, newLoop(t), asIs)
			<-e.rests
			if err := end(client.Net().(*tls.Conn), far); err != nil {
				t.Fatal(err)
			}
			<-done
			if err := client.Fill(0, 0); err != io.EOF {
				t.Errorf("the end was %v", err)
			}
		})
	}
}

// announced is secureClient with a client's end that tells an end that was announced
// (io.EOF) from another, the socket below it, and done, which is closed at the end.
func announced(t testing.TB, l *Loop, change func(*echo)) (e *echo, client *Conn, far net.Conn, done chan struct{}) {
	t.Helper()
	near, far := accepted(t, "tcp")
	near.Join(l)
	c, over := secure(t, near, NewUnder(far))
	client = New(over)
	t.Cleanup(client.Discard)
	e, done = attendEcho(t, l, c, change)
	return e, client, far, done
}

// TestSecureIsToldOfTheEnd: a connection that has rested for too long, or is interrupted
// and ended, ends as TLS does.
func TestSecureIsToldOfTheEnd(t *testing.T) {
	for name, limit := range map[string]int64{"deadline": Now() + int64(time.Millisecond), "interrupt": 0} {
		t.Run(name, func(t *testing.T) {
			e, client, _, done := announced(t, newLoop(t), func(e *echo) { e.idle = limit })
			if <-e.rests; limit == 0 {
				e.c.Interrupt()
			}
			<-done
			if err := client.Fill(0, 0); err != io.EOF {
				t.Errorf("the end was %v", err)
			}
		})
	}
}

// TestSecureDeadline: what is waited for within a request has a deadline, and the
// connection goes on after it.
func TestSecureDeadline(t *testing.T) {
	fault := make(chan error, 1)
	e, client := secureClient(t, newLoop(t), func(e *echo) {
		answer := e.line
		e.line = func(line []byte) bool {
			if string(line) == "more\n" {
				fault <- e.c.Fill(0, Now()+int64(time.Millisecond))
			}
			return answer(line)
		}
	})
	for range 2 {
		<-e.rests
		send(t, client, []byte("more\n"))
		if err := <-fault; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		expect(t, client, "more\n")
	}
}

// servesAnother sees that l serves another client.
func servesAnother(t *testing.T, l *Loop) {
	t.Helper()
	_, client := secureClient(t, l, asIs)
	send(t, client, []byte("me\n"))
	expect(t, client, "me\n")
}

// stuffed has a connection over TLS write more than there is room for, with a rest that
// nobody waits for, and go on as lives says.
func stuffed(t *testing.T, l *Loop, lives bool) (e *echo, client *Conn, far net.Conn, done chan struct{}, sent int) {
	t.Helper()
	wrote := make(chan int, 1)
	e, client, far, done = announced(t, l, func(e *echo) {
		answer := e.line
		e.line = func(line []byte) bool {
			if string(line) != "stuff\n" {
				return answer(line)
			}
			n, err := e.c.Write(make([]byte, big), Now()+int64(time.Millisecond))
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			wrote <- n
			return lives
		}
	})
	<-e.rests
	send(t, client.Net(), []byte("stuff\n"))
	return e, client, far, done, <-wrote
}

// drink reads n bytes of a client's end.
func drink(t *testing.T, client *Conn, n int) {
	t.Helper()
	for n > 0 {
		if len(client.Buffered()) == 0 {
			if err := client.Fill(0, 0); err != nil {
				t.Fatalf("%v, with %d bytes to come", err, n)
			}
		}
		some := min(n, len(client.Buffered()))
		client.Consume(some)
		n -= some
	}
}

// TestSecureEndsWithoutRoom: what is left of a record, and the end of TLS behind it, are
// written as soon as there is room, and no other connection waits for that.
func TestSecureEndsWithoutRoom(t *testing.T) {
	l := newLoop(t)
	_, client, _, done, sent := stuffed(t, l, false)
	servesAnother(t, l)
	drink(t, client, sent)
	if err := client.Fill(0, 0); err != io.EOF {
		t.Errorf("%d bytes behind what was written, and the end was %v", len(client.Buffered()), err)
	}
	<-done
}

// records writes records of TLS 1.3 with the keys of a client: crypto/tls updates no
// keys unless it is asked to.
type records struct {
	wire   io.Writer
	secret []byte
	n      uint64
}

// recordsOf is for a client that has written nothing since the handshake, of which the
// log tells.
func recordsOf(t testing.TB, client *tls.Conn, wire io.Writer, log string) *records {
	t.Helper()
	if suite := client.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("the cipher is %s", tls.CipherSuiteName(suite))
	}
	for line := range strings.Lines(log) {
		if words := strings.Fields(line); words[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(words[2])
			if err != nil {
				t.Fatal(err)
			}
			return &records{wire: wire, secret: secret}
		}
	}
	t.Fatalf("no secret in %q", log)
	return nil
}

// expand is HKDF-Expand-Label (RFC 8446 section 7.1).
func (r *records) expand(t testing.TB, label string, n int) []byte {
	t.Helper()
	label = "tls13 " + label
	out, err := hkdf.Expand(sha256.New, r.secret, string([]byte{0, byte(n), byte(len(label))})+label+"\x00", n)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// record is what carries data of a content type (RFC 8446 section 5.2).
func (r *records) record(t testing.TB, kind byte, data string) []byte {
	t.Helper()
	block, err := aes.NewCipher(r.expand(t, "key", 16))
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := r.expand(t, "iv", gcm.NonceSize())
	var count [8]byte
	binary.BigEndian.PutUint64(count[:], r.n)
	r.n++
	for i, b := range count {
		nonce[len(nonce)-8+i] ^= b
	}
	size := len(data) + 1 + gcm.Overhead()
	head := []byte{23, 3, 3, byte(size >> 8), byte(size)}
	return gcm.Seal(head, nonce, append([]byte(data), kind), head)
}

// The content types, and a message that updates a key and asks for the same in return
// (RFC 8446 section 4.6.3).
const (
	handshakeRecord = 22
	dataRecord      = 23
	keyUpdate       = "\x18\x00\x00\x01\x01"
)

// update is a record that updates the key, after which the next goes by the new one.
func (r *records) update(t testing.TB) []byte {
	t.Helper()
	record := r.record(t, handshakeRecord, keyUpdate)
	r.secret, r.n = r.expand(t, "traffic upd", sha256.Size), 0
	return record
}

// TestSecureKeyUpdate: keys are updated while a connection rests, by a record that comes
// whole, in pieces or before a line, and the answer says so.
func TestSecureKeyUpdate(t *testing.T) {
	for _, serve := range []string{"loop", "watch"} {
		t.Run(serve, func(t *testing.T) {
			l, trust := newLoop(t), newTrust(t)
			var log bytes.Buffer
			trust.client.KeyLogWriter = &log
			near, far := accepted(t, "tcp")
			near.Join(l)
			c, client, err := trust.secure(near, far)
			if err != nil {
				t.Fatal(err)
			}
			r := recordsOf(t, client, far, log.String())
			by := watching
			if serve == "loop" {
				by = attendingBy(l)
			}
			e, _ := serveEcho(t, c, by, asIs)
			<-e.rests
			send(t, far, r.update(t))
			<-e.rests
			for _, b := range r.update(t) {
				send(t, far, []byte{b})
				<-e.rests
			}
			send(t, far, append(r.update(t), r.record(t, dataRecord, "line\n")...))
			expect(t, client, "line\n")
		})
	}
}

// TestSecureKeyUpdateWithoutRoom: what TLS has to say while nobody can wait for room goes
// out later, and no other connection waits for it.
func TestSecureKeyUpdateWithoutRoom(t *testing.T) {
	l, trust := newLoop(t), newTrust(t)
	var log bytes.Buffer
	trust.client.KeyLogWriter = &log
	near, far := accepted(t, "tcp")
	near.Join(l)
	c, client, err := trust.secure(near, far)
	if err != nil {
		t.Fatal(err)
	}
	wrote := make(chan int, 1)
	e, _ := attendEcho(t, l, c, func(e *echo) {
		answer := e.line
		e.line = func(line []byte) bool {
			if string(line) != "stuff\n" {
				return answer(line)
			}
			n, _ := e.c.Write(make([]byte, big), Now()+int64(time.Millisecond))
			wrote <- n
			return true
		}
	})
	<-e.rests
	r := recordsOf(t, client, far, log.String())
	send(t, far, r.record(t, dataRecord, "stuff\n"))
	sent := <-wrote
	<-e.rests
	send(t, far, r.update(t))
	<-e.rests
	servesAnother(t, l)
	send(t, far, r.record(t, dataRecord, "last\n"))
	if _, err := io.CopyN(io.Discard, client, int64(sent)); err != nil {
		t.Fatal(err)
	}
	expect(t, client, "last\n")
}

// TestSecureLeavesTheRuntimes: what the runtime's poller has known is not served by a
// loop.
func TestSecureLeavesTheRuntimes(t *testing.T) {
	near, far := accepted(t, "tcp")
	if _, err := near.introduce(); err != nil { // a handshake that need not wait does not
		t.Fatal(err)
	}
	c, _ := secure(t, near, far)
	if l := newLoop(t); c.Attend(l, newEcho(c), func() {}) {
		t.Error("a loop serves it")
		_ = c.Close()
	}
}

// TestAttendOfOneThatIsClosed by another goroutine in the meantime: it is not served, or
// ends.
func TestAttendOfOneThatIsClosed(t *testing.T) {
	l := newLoop(t)
	for range 200 {
		near, _ := accepted(t, "tcp")
		c, over, closed := New(near), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(closed)
			_ = c.Close()
		}()
		if c.Attend(l, newEcho(c), func() { _ = c.Close(); close(over) }) {
			<-over
		}
		<-closed
	}
}
