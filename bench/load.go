package main

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// load is the connections to one proxy. They are kept between slices.
type load struct {
	scenario scenario
	rate     float64 // requests a second that are due; 0: as fast as they are answered
	clients  []client
	tallies  []tally // by goroutine
}

// client is one connection, or one place for connections that are used once. It
// belongs to one goroutine at a time.
type client interface {
	// run sends a request for each that is due, as many at a time as the
	// scenario wants, and returns when the last was answered.
	run(next arrivals, t *tally) error
	close()
}

// arrivals tells when the next request is or was due; its latency counts from
// then. It reports false when no more are due.
type arrivals func() (due time.Time, more bool)

// tally is what came of some requests.
type tally struct {
	latency histogram
	fault   error // what ended the load
}

// answerTimeout bounds the wait for one answer, so that a proxy that hangs ends
// the benchmark with its fault.
const answerTimeout = 10 * time.Second

// dialers is how many connections are opened at a time. A backlog holds more.
const dialers = 64

// connect opens the scenario's connections.
func connect(to endpoint, s scenario) (*load, error) {
	l := &load{scenario: s, clients: make([]client, s.connections)}
	faults := make([]error, s.connections)
	share(s.connections, dialers, func(i, _ int) { l.clients[i], faults[i] = newClient(to, &l.scenario) })
	for _, err := range faults {
		if err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

// share has several do n things; each thing is told who does it.
func share(n, several int, do func(i, who int)) {
	var all sync.WaitGroup
	for who := range min(n, several) {
		all.Go(func() {
			for i := who; i < n; i += several {
				do(i, who)
			}
		})
	}
	all.Wait()
}

func newClient(to endpoint, s *scenario) (client, error) {
	if s.fresh {
		return &visitor{to: to, scenario: s, request: s.requestHTTP1()}, nil
	}
	conn, err := to.dial(s)
	if err != nil {
		return nil, err
	}
	if s.streams > 0 {
		return newMultiplexer(conn, s)
	}
	return newKept(conn, s), nil
}

func (l *load) close() {
	for _, c := range l.clients {
		if c != nil {
			c.close()
		}
	}
}

// slice sends load for d, waits for the last answer and returns what came of
// it: all that the proxy did for this load lies between the two.
func (l *load) slice(d time.Duration) tally {
	until := time.Now().Add(d)
	if l.rate > 0 {
		return l.open(until)
	}
	return l.each(func() (time.Time, bool) {
		now := time.Now()
		return now, now.Before(until)
	})
}

// open sends what is due until then.
func (l *load) open(until time.Time) tally {
	due := make(chan time.Time, int(l.rate)) // a second's worth; then the arrivals wait, and their latency shows it
	failed := make(chan error, 1)
	go func() { failed <- pace(l.rate, until, due) }()
	sum := l.each(func() (time.Time, bool) {
		at, more := <-due
		return at, more
	})
	for range due { // what nobody was left to send
		continue
	}
	if err := <-failed; err != nil && sum.fault == nil {
		sum.fault = err
	}
	return sum
}

// each runs all clients at once and waits.
func (l *load) each(next arrivals) tally {
	l.tallies = make([]tally, len(l.clients))
	share(len(l.clients), len(l.clients), func(i, _ int) { l.run(i, next, &l.tallies[i]) })
	return l.collect()
}

// once sends one request on each connection, a few at a time.
func (l *load) once() tally {
	l.tallies = make([]tally, dialers)
	share(len(l.clients), dialers, func(i, who int) {
		asked := false
		l.run(i, func() (time.Time, bool) {
			first := !asked
			asked = true
			return time.Now(), first
		}, &l.tallies[who])
	})
	return l.collect()
}

func (l *load) run(i int, next arrivals, t *tally) {
	if err := l.clients[i].run(next, t); err != nil {
		t.fault = err
	}
}

func (l *load) collect() tally {
	var sum tally
	for i := range l.tallies {
		t := &l.tallies[i]
		sum.latency.merge(&t.latency)
		if t.fault != nil {
			sum.fault = t.fault
		}
	}
	return sum
}

// endpoint is where a load goes.
type endpoint struct {
	port int
	tls  *authority // nil: in clear
}

func (e endpoint) dial(s *scenario) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", e.port), answerTimeout)
	if err != nil || e.tls == nil {
		return conn, err
	}
	return e.tls.handshake(conn, s)
}
