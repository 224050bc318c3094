package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"time"
)

// kept is one HTTP/1.1 connection that is used again and again.
type kept struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	size    int // bytes in the body of an answer
}

func newKept(conn net.Conn, s *scenario) *kept {
	const largest = 128 << 10 // a larger buffer saves the load no more reads
	return &kept{conn, bufio.NewReaderSize(conn, min(largest, s.size()+2048)), s.requestHTTP1(), s.size()}
}

func (c *kept) close() { _ = c.conn.Close() }

func (c *kept) run(next arrivals, t *tally) error {
	for {
		due, more := next()
		if !more {
			return nil
		}
		if err := c.exchange(); err != nil {
			return err
		}
		t.latency.add(time.Since(due))
	}
}

// exchange sends one request and reads its answer.
func (c *kept) exchange() error {
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	head, err := peekHead(c.in)
	if err != nil {
		return fmt.Errorf("read an answer's head: %w", err)
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		line, _, _ := bytes.Cut(head, []byte("\r\n"))
		return fmt.Errorf("the answer is %q", line)
	}
	if size, ok := contentLength(head); !ok || size != c.size {
		return errors.New("the answer has not the length that the backend gave")
	}
	if _, err := c.in.Discard(len(head) + c.size); err != nil {
		return fmt.Errorf("read an answer's body: %w", err)
	}
	return nil
}

// visitor opens a connection for each request and closes it after the answer.
type visitor struct {
	to       endpoint
	scenario *scenario
	request  []byte
	in       *bufio.Reader // used again by each connection
}

func (v *visitor) close() {}

func (v *visitor) run(next arrivals, t *tally) error {
	for {
		due, more := next()
		if !more {
			return nil
		}
		if err := v.visit(); err != nil {
			return err
		}
		t.latency.add(time.Since(due))
	}
}

func (v *visitor) visit() error {
	conn, err := v.to.dial(v.scenario)
	if err != nil {
		return err
	}
	defer conn.Close()
	if v.in == nil {
		v.in = bufio.NewReaderSize(conn, 2048)
	}
	v.in.Reset(conn)
	return (&kept{conn, v.in, v.request, v.scenario.size()}).exchange()
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
			return nil, bufio.ErrBufferFull
		}
	}
}
