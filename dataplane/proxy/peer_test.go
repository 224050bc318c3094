package proxy_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// peer is one end of a connection that a test holds: a client or a backend.
type peer struct {
	t     testing.TB
	name  string
	conn  *net.TCPConn
	split int // bytes of each write; 0: all at once
}

func newPeer(t testing.TB, name string, c net.Conn) *peer {
	p := &peer{t: t, name: name, conn: c.(*net.TCPConn)}
	t.Cleanup(p.close)
	return p
}

// send writes bytes.
func (p *peer) send(text string) {
	p.t.Helper()
	if err := p.write([]byte(text)); err != nil {
		p.t.Fatalf("%s: sending: %v", p.name, err)
	}
}

func (p *peer) write(data []byte) error {
	_ = p.conn.SetWriteDeadline(time.Now().Add(patience))
	for len(data) > 0 {
		n := len(data)
		if p.split > 0 {
			n = min(n, p.split)
		}
		if _, err := p.conn.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// dates stand in what the proxy writes; they are all shown as the one of RFC
// 9110.
var dates = regexp.MustCompile(`\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT`)

const someDate = "Sun, 06 Nov 1994 08:49:37 GMT"

// dated is an answer without a Date as it is passed on (RFC 9110 section 6.6.1).
func dated(answer string) string {
	return strings.Replace(answer, "\r\n", "\r\nDate: "+someDate+"\r\n", 1)
}

// sees reads as many bytes as are wanted and compares.
func (p *peer) sees(want string) {
	p.t.Helper()
	got, err := p.read(len(want))
	if got != want {
		p.t.Fatalf("%s sees (%v)\n%q\nwant\n%q", p.name, err, got, want)
	}
}

// read reads n bytes, or what comes before an end.
func (p *peer) read(n int) (string, error) {
	_ = p.conn.SetReadDeadline(time.Now().Add(patience))
	data := make([]byte, n)
	n, err := io.ReadFull(p.conn, data)
	return dates.ReplaceAllString(string(data[:n]), someDate), err
}

// head reads up to an empty line.
func (p *peer) head() string {
	p.t.Helper()
	var head []byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		c, err := p.read(1)
		if err != nil {
			p.t.Fatalf("%s: %v after %q", p.name, err, head)
		}
		head = append(head, c...)
	}
	return dates.ReplaceAllString(string(head), someDate)
}

// ends waits for the end of the stream: nothing more comes.
func (p *peer) ends() {
	p.t.Helper()
	if rest, err := p.rest(); err != nil || rest != "" {
		p.t.Fatalf("%s: %v after %q, want the end", p.name, err, rest)
	}
}

// rest reads up to the end of the stream.
func (p *peer) rest() (string, error) {
	_ = p.conn.SetReadDeadline(time.Now().Add(patience))
	data, err := io.ReadAll(p.conn)
	return string(data), err
}

// breaks waits for a reset.
func (p *peer) breaks() {
	p.t.Helper()
	if rest, err := p.rest(); !errors.Is(err, syscall.ECONNRESET) {
		p.t.Fatalf("%s: %v after %q, want a reset", p.name, err, rest)
	}
}

// gone waits until the other side has closed, in whatever way.
func (p *peer) gone() {
	p.t.Helper()
	if rest, err := p.rest(); rest != "" || errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("%s: %v after %q, want the end", p.name, err, rest)
	}
}

func (p *peer) close() { _ = p.conn.Close() }

func (p *peer) closeWrite() {
	p.t.Helper()
	if err := p.conn.CloseWrite(); err != nil {
		p.t.Fatal(err)
	}
}

// reset closes so that the other side sees ECONNRESET.
func (p *peer) reset() {
	_ = p.conn.SetLinger(0)
	_ = p.conn.Close()
}
