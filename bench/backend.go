package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// backend is the server behind every proxy: as little of HTTP/1.1, and of
// HTTP/2 in clear, as the load needs, so that it leaves the load's core to the
// load.
type backend struct {
	http1, http2 net.Listener
	served       atomic.Int64
	think        time.Duration // before an answer over HTTP/1.1
}

// healthPath is answered but not counted.
const healthPath = "/health"

func startBackend(think time.Duration) (*backend, error) {
	b := &backend{think: think}
	var err error
	if b.http1, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if b.http2, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	ready := readyAnswers()
	go accept(b.http1, func(conn net.Conn) { b.serveHTTP1(conn, ready) })
	go accept(b.http2, b.serveHTTP2)
	return b, nil
}

func (b *backend) close() {
	b.http1.Close()
	b.http2.Close()
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

func accept(l net.Listener, serve func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			serve(conn)
		}()
	}
}

// readyAnswers are whole answers by path.
func readyAnswers() map[string][]byte {
	ready := map[string][]byte{healthPath: []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")}
	for path, size := range answers {
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", size)
		ready[path] = append([]byte(head), pattern(size)...)
	}
	return ready
}

// serveHTTP1 answers one connection's requests until it closes or says something
// that the load never says.
func (b *backend) serveHTTP1(conn net.Conn, ready map[string][]byte) {
	in := bufio.NewReaderSize(conn, 16<<10)
	for {
		path, body, err := readHead(in)
		if err != nil {
			return
		}
		answer, ok := ready[string(path)]
		if !ok {
			answer = []byte("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		}
		if string(path) != healthPath {
			b.served.Add(1) // before the client can know
		}
		if _, err := in.Discard(body); err != nil {
			return
		}
		if b.think > 0 {
			time.Sleep(b.think)
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// readHead reads a request's head and returns its path and the bytes in its
// body. The path is in the reader's buffer: it is gone with the next read.
func readHead(in *bufio.Reader) (path []byte, body int, err error) {
	head, err := peekHead(in)
	if err != nil {
		return nil, 0, err
	}
	_, rest, _ := bytes.Cut(head, []byte(" "))
	path, _, _ = bytes.Cut(rest, []byte(" "))
	body, _ = contentLength(head) // a GET has none
	_, err = in.Discard(len(head))
	return path, body, err
}

// contentLength finds the field by hand: bytes.ToLower would allocate.
func contentLength(head []byte) (int, bool) {
	const name = "content-length:"
	for len(head) > 0 {
		line := head
		if end := bytes.IndexByte(head, '\n'); end >= 0 {
			line, head = head[:end], head[end+1:]
		} else {
			head = nil
		}
		if len(line) > len(name) && bytes.EqualFold(line[:len(name)], []byte(name)) {
			n, err := strconv.Atoi(string(bytes.TrimSpace(line[len(name):])))
			return n, err == nil
		}
	}
	return 0, false
}
