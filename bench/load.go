package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// load is the connections to one proxy. They are kept between slices.
type load struct {
	scenario scenario
	conns    []*client
}

// client is one connection. It belongs to one goroutine at a time.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	tally
}

// tally is what came of some requests.
type tally struct {
	latency histogram
	failed  int64
	fault   error // the last failure
}

func (t *tally) add(other *tally) {
	t.latency.merge(&other.latency)
	t.failed += other.failed
	if other.fault != nil {
		t.fault = other.fault
	}
}

// answerTimeout bounds the wait for one answer, so that a proxy that hangs ends
// the benchmark with its fault.
const answerTimeout = 10 * time.Second

func connect(address string, s scenario) (*load, error) {
	l := &load{scenario: s}
	for range s.connections {
		conn, err := net.DialTimeout("tcp", address, answerTimeout)
		if err != nil {
			l.close()
			return nil, err
		}
		l.conns = append(l.conns, &client{conn: conn, in: bufio.NewReaderSize(conn, min(16<<10, s.size+2048))})
	}
	return l, nil
}

func (l *load) close() {
	for _, c := range l.conns {
		c.conn.Close()
	}
}

// slice sends load for d, waits for the last answer and returns what came of
// it: all that the proxy did for this load lies between the two.
func (l *load) slice(d time.Duration) tally {
	until := time.Now().Add(d)
	if l.scenario.rate > 0 {
		l.open(until)
	} else {
		l.each(func(c *client) {
			for time.Now().Before(until) && c.fault == nil {
				c.exchange(l.scenario, time.Now())
			}
		})
	}
	return l.collect()
}

// once sends one request on each connection.
func (l *load) once() tally {
	l.each(func(c *client) { c.exchange(l.scenario, time.Now()) })
	return l.collect()
}

// each runs do for all connections at once and waits.
func (l *load) each(do func(*client)) {
	var all sync.WaitGroup
	for _, c := range l.conns {
		all.Go(func() { do(c) })
	}
	all.Wait()
}

// open sends requests at times drawn beforehand. Each is due whether or not
// the ones before it were answered, and its latency counts from then, so that a
// stall is charged to all that it delays.
func (l *load) open(until time.Time) {
	due := make(chan time.Time, l.scenario.rate) // a second's worth; then the arrivals wait, and their latency shows it
	go func() {
		defer close(due)
		for at := time.Now(); ; {
			at = at.Add(time.Duration(rand.ExpFloat64() / float64(l.scenario.rate) * float64(time.Second)))
			if at.After(until) {
				return
			}
			time.Sleep(time.Until(at))
			due <- at
		}
	}()
	l.each(func(c *client) {
		for at := range due {
			if c.fault == nil {
				c.exchange(l.scenario, at)
			}
		}
	})
}

func (l *load) collect() tally {
	var sum tally
	for _, c := range l.conns {
		sum.add(&c.tally)
		c.tally = tally{}
	}
	return sum
}

// exchange sends one request and reads its answer; the latency counts from at.
func (c *client) exchange(s scenario, at time.Time) {
	err := c.roundTrip(s)
	if err != nil {
		c.failed++
		c.fault = err
		return
	}
	c.latency.add(time.Since(at))
}

func (c *client) roundTrip(s scenario) error {
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(s.request); err != nil {
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
	if size, ok := contentLength(head); !ok || size != s.size {
		return errors.New("the answer has not the length that the backend gave")
	}
	if _, err := c.in.Discard(len(head) + s.size); err != nil {
		return fmt.Errorf("read an answer's body: %w", err)
	}
	return nil
}
