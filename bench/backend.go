package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
)

// backend is the server behind every proxy: as little of HTTP/1.1 as the load
// needs, so that it leaves the load's core to the load.
type backend struct {
	listener net.Listener
	served   atomic.Int64
}

// answers are the paths that the backend knows and the bytes in their bodies.
var answers = map[string]int{"/b100": 100, "/b10k": 10 << 10, "/b1m": 1 << 20}

func startBackend() (*backend, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &backend{listener: listener}
	go b.accept()
	return b, nil
}

func (b *backend) port() int { return b.listener.Addr().(*net.TCPAddr).Port }

func (b *backend) accept() {
	ready := make(map[string][]byte, len(answers))
	for path, size := range answers {
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", size)
		ready[path] = append([]byte(head), bytes.Repeat([]byte("x"), size)...)
	}
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		go b.serve(conn, ready)
	}
}

// serve answers one connection's requests until it closes or says something
// that the load never says.
func (b *backend) serve(conn net.Conn, ready map[string][]byte) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 16<<10)
	for {
		path, body, err := readHead(in)
		if err != nil {
			return
		}
		if _, err := in.Discard(body); err != nil {
			return
		}
		answer, ok := ready[string(path)]
		if !ok {
			answer = []byte("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		}
		b.served.Add(1) // before the client can know
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

// peekHead waits for a whole head and returns it, its empty line included,
// without taking it.
func peekHead(in *bufio.Reader) ([]byte, error) {
	for wanted := 1; ; wanted = in.Buffered() + 1 {
		if _, err := in.Peek(wanted); err != nil {
			return nil, err
		}
		seen, err := in.Peek(in.Buffered())
		if err != nil {
			return nil, err
		}
		if end := bytes.Index(seen, []byte("\r\n\r\n")); end >= 0 {
			return seen[:end+4], nil
		}
		if len(seen) == in.Size() {
			return nil, io.ErrShortBuffer
		}
	}
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
