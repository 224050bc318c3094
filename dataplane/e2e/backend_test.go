package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// backendVariable makes this test binary a backend that listens at that address
// and does what the lines of its standard input say. Its other arguments are in
// the variables below.
const (
	backendVariable = "HEADGATE_E2E_BACKEND"
	nameVariable    = "HEADGATE_E2E_NAME"
	ordersVariable  = "HEADGATE_E2E_ORDERS" // a file to which it appends the orders that it carries out
)

// nameField says which backend answered.
const nameField = "X-Backend"

// A way is how a backend treats requests.
type way string

const (
	wayWell      way = "well"
	waySlow      way = "slow"       // answers after slowness
	wayReset     way = "reset"      // breaks the connection, with a RST
	wayHalfClose way = "half-close" // ends its side of the connection and reads on
)

// slowness is longer than the proxies wait for an answer.
const slowness = firstByte * 3 / 2

// server is the backend's own side.
type server struct {
	name   string
	orders *os.File
	way    atomic.Value // of type way
}

// connKey is the context key of a request's connection.
type connKey struct{}

// runBackend serves until its standard input ends, which it does at the latest
// with the test.
func runBackend(address string) int {
	s := &server{name: os.Getenv(nameVariable)}
	s.way.Store(wayWell)
	var err error
	if s.orders, err = os.OpenFile(os.Getenv(ordersVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		fmt.Println(err)
		return 1
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: time.Minute,
		Protocols:         new(http.Protocols),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = h.Serve(listener) }() // ends with the process
	fmt.Println(listener.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		s.way.Store(way(lines.Text()))
		fmt.Println(lines.Text())
	}
	return 0
}

// ServeHTTP answers short and long requests and carries out orders. An order
// is carried out before anything goes wrong, so that one that is sent again is
// found out. A long answer comes in pieces, so that there are always some that
// are under way.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, id := path.Split(r.URL.Path)
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	if r.Method == http.MethodPost {
		if _, err := fmt.Fprintln(s.orders, id); err != nil {
			panic(err)
		}
	}
	if r.URL.Path != healthPath && s.misbehave(r) {
		return
	}
	w.Header().Set(nameField, s.name)
	if kind != longPath {
		body := bodyOf(kind, id)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body)
		return
	}
	s.answerLong(w, r, bodyOf(kind, id))
}

// misbehave does what the way of the moment asks for, and reports whether the
// request gets no answer.
func (s *server) misbehave(r *http.Request) bool {
	conn := r.Context().Value(connKey{}).(*net.TCPConn)
	switch s.way.Load().(way) {
	case waySlow:
		select {
		case <-time.After(slowness):
		case <-r.Context().Done():
		}
		return false
	case wayReset:
		_ = conn.SetLinger(0)
		_ = conn.Close()
		return true
	case wayHalfClose:
		_ = conn.CloseWrite()
		<-r.Context().Done() // the peer has closed too
		return true
	default:
		return false
	}
}

// answerLong writes a piece at a time, and misbehaves between them as well.
func (s *server) answerLong(w http.ResponseWriter, r *http.Request, body string) {
	const pieces = 4
	flush := http.NewResponseController(w)
	for i := range pieces {
		if i > 0 {
			time.Sleep(time.Millisecond)
			if s.way.Load() != waySlow && s.misbehave(r) {
				return
			}
		}
		if _, err := io.WriteString(w, body[i*len(body)/pieces:(i+1)*len(body)/pieces]); err != nil {
			return
		}
		if err := flush.Flush(); err != nil {
			return
		}
	}
}

// The requests. What follows the path is the id of the request.
const (
	shortPath  = "/short/"
	longPath   = "/long/"
	orderPath  = "/order/"
	healthPath = "/healthz"
)

// bodyOf is what answers a request: nobody else's answer has it.
func bodyOf(kind, id string) string {
	n := 20
	if kind == longPath {
		n = 2000
	}
	return strings.Repeat(kind+id+"\n", n)
}
