package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// line is one connection to a proxy, and the next one when that has ended. It
// never sends a request twice. Several goroutines may use one of HTTP/2.
type line struct {
	address string
	http2   bool

	mu   sync.Mutex
	conn connection // nil: none yet, or it is of no use any more
}

// connection sends one request and reads the head of its answer. Err tells that it
// takes no more. An http.ClientConn is one.
type connection interface {
	RoundTrip(r *http.Request) (*http.Response, error)
	Err() error
	Close() error
}

func (l *line) dial(ctx context.Context) (connection, error) {
	if !l.http2 {
		return dialHTTP1(ctx, l.address)
	}
	t := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	t.Protocols.SetUnencryptedHTTP2(true)
	return t.NewClientConn(ctx, "http", l.address)
}

// take gives the connection, a new one if there is none that is usable.
func (l *line) take(ctx context.Context) (connection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil && l.conn.Err() == nil {
		return l.conn, nil
	}
	l.hangUp()
	c, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	l.conn = c
	return c, nil
}

// hangUp closes the connection. mu is held.
func (l *line) hangUp() {
	if l.conn != nil {
		_ = l.conn.Close() // it may be broken
		l.conn = nil
	}
}

func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hangUp()
}

// answer is what became of a request.
type answer struct {
	from   string // the backend that answered
	headed bool   // the head of an answer had come: it was being answered
	fault  error  // nil: answered, whole and right
}

// ask sends one request and reads its answer to the end.
func (l *line) ask(ctx context.Context, method, kind, id string) answer {
	conn, err := l.take(ctx)
	if err != nil {
		return answer{fault: fmt.Errorf("no connection: %w", err)}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+l.address+kind+id, bodyFor(method, id))
	if err != nil {
		return answer{fault: err}
	}
	response, err := conn.RoundTrip(r)
	if err != nil {
		return answer{fault: fmt.Errorf("no answer: %w", err)}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case response.StatusCode != http.StatusOK: // the proxy's own
		return answer{fault: fmt.Errorf("status %d: %s", response.StatusCode, response.Header.Get("Proxy-Status"))}
	case err != nil:
		return answer{headed: true, fault: fmt.Errorf("cut off: %w", err)}
	case string(body) != bodyOf(kind, id): // it looks whole, and is not: worse than any other fault
		return answer{fault: errors.New("another body than the backend's")}
	}
	return answer{from: response.Header.Get(nameField), headed: true}
}

func bodyFor(method, id string) io.Reader {
	if method == http.MethodPost {
		return strings.NewReader(id)
	}
	return http.NoBody
}

// plain is a connection of HTTP/1 that ends when the proxy says so and not
// otherwise: net/http's gives one up now and then for reasons of its own, and a
// request that meets that would count as a fault of the proxy.
type plain struct {
	net.Conn
	in     *bufio.Reader
	forget func() bool // its context
	broken error
}

// dialHTTP1 connects. The connection is closed when ctx ends.
func dialHTTP1(ctx context.Context, address string) (*plain, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	hurry := context.AfterFunc(ctx, func() { _ = c.Close() })
	return &plain{Conn: c, in: bufio.NewReader(c), forget: hurry}, nil
}

// Close closes the connection.
func (p *plain) Close() error {
	p.forget()
	return p.Conn.Close()
}

func (p *plain) Err() error { return p.broken }

// RoundTrip sends a request and reads the head of its answer, which may be there
// though the rest of the request could not be sent.
func (p *plain) RoundTrip(r *http.Request) (*http.Response, error) {
	unsent := r.Write(p.Conn)
	response, err := http.ReadResponse(p.in, r)
	if err != nil {
		p.broken = errors.Join(unsent, err)
		return nil, p.broken
	}
	response.Body = &watched{response.Body, p}
	if response.Close || unsent != nil {
		p.broken = errors.New("the proxy closes it")
	}
	return response, nil
}

// watched is a body whose fault ends its connection.
type watched struct {
	io.ReadCloser
	of *plain
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		w.of.broken = err
	}
	return n, err
}
