package http2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// call is a request, and answer its response, for any client and server.
type call struct {
	method   string
	path     string
	fields   map[string]string
	body     []byte
	unsized  bool // no Content-Length
	trailers map[string]string
}

type answer struct {
	status   int
	interim  []int
	fields   map[string]string
	body     []byte
	trailers map[string]string
}

// caller is one side that sends.
type caller interface {
	do(t *testing.T, c *call) (*answer, error)
	close()
}

// The servers answer by path: /echo with what came; /status/N with a status and
// no body; /interim with two 103 first; /only with a status and trailers alone;
// /head with a Content-Length and no body.

// ours serves that.
func ours(s *Stream) {
	path := string(s.Request().Path)
	var out message.Fields
	switch {
	case s.Fault() != nil || path == "/echo":
		echo(s)
	case strings.HasPrefix(path, "/status/"):
		status, _ := strconv.Atoi(path[len("/status/"):])
		_ = s.WriteResponseHead(status, nil, true, 0)
	case path == "/interim":
		out.Add([]byte("Link"), []byte("</a>"))
		_ = s.WriteResponseHead(103, &out, false, 0)
		_ = s.WriteResponseHead(103, &out, false, 0)
		_ = s.WriteResponseHead(200, nil, true, 0)
	case path == "/only":
		out.Add([]byte("grpc-status"), []byte("12"))
		_ = s.WriteResponseHead(200, &out, true, 0)
	case path == "/head":
		out.Add([]byte("Content-Length"), []byte("1234"))
		_ = s.WriteResponseHead(200, &out, true, 0)
	}
}

// theirs is the same for net/http.
func theirs(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/echo":
		w.Header().Set("Content-Type", "text/plain")
		for name, values := range r.Header {
			w.Header().Set("Echo-"+name, values[0])
		}
		if r.ContentLength >= 0 && r.Header.Get("Content-Length") != "" {
			w.Header().Set("Content-Length", strconv.FormatInt(r.ContentLength, 10))
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		if _, err := io.Copy(w, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		for name, values := range r.Trailer {
			w.Header().Set(http.TrailerPrefix+name, values[0])
		}
	case strings.HasPrefix(path, "/status/"):
		status, _ := strconv.Atoi(path[len("/status/"):])
		w.WriteHeader(status)
	case path == "/interim":
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	case path == "/only":
		w.Header().Set("Grpc-Status", "12")
		w.WriteHeader(http.StatusOK)
	case path == "/head":
		w.Header().Set("Content-Length", "1234")
	}
}

// overClear is HTTP/2 in clear by prior knowledge, for net/http.
func overClear() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// listenTheirs serves handler by net/http on a port of the loopback.
func listenTheirs(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, Protocols: overClear()}
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Close()
		running.Wait()
	})
	return l.Addr().String()
}

// ourCaller calls with our client.
type ourCaller struct{ client *Client }

func dial(t testing.TB, address string, o Options) *Client {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(socket.New(c), o)
	client.Start()
	t.Cleanup(func() {
		client.Close()
		<-client.Done()
	})
	return client
}

func (o *ourCaller) close() {}

func sorted(m map[string]string) *message.Fields {
	f := &message.Fields{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		f.Add([]byte(name), []byte(m[name]))
	}
	return f
}

func (o *ourCaller) do(_ *testing.T, c *call) (*answer, error) {
	s, err := o.client.NewStream()
	if err != nil {
		return nil, err
	}
	defer s.Finish()
	fields := sorted(c.fields)
	if !c.unsized && len(c.body) > 0 {
		fields.Add([]byte("Content-Length"), strconv.AppendInt(nil, int64(len(c.body)), 10))
	}
	for name := range c.trailers {
		fields.Add([]byte("Trailer"), []byte(name)) // net/http takes no others
	}
	whole := len(c.body)+len(c.trailers) == 0
	head := RequestHead{Method: []byte(c.method), Authority: []byte("test"), Target: []byte(c.path), Fields: fields}
	if err := s.WriteRequestHead(&head, whole, 0); err != nil {
		return nil, err
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		if whole {
			return
		}
		if _, err := s.WriteData(c.body, len(c.trailers) == 0, 0); err == nil && len(c.trailers) > 0 {
			_ = s.WriteTrailers(sorted(c.trailers), 0)
		}
	})
	return readAnswer(s)
}

func readAnswer(s *Stream) (*answer, error) {
	a := &answer{fields: map[string]string{}, trailers: map[string]string{}}
	for a.status < 200 {
		head, err := s.ReadHead(0)
		if err != nil {
			return nil, err
		}
		if a.status = head.Status; a.status < 200 {
			a.interim = append(a.interim, a.status)
			continue
		}
		for _, f := range head.Fields.All() {
			a.fields[string(f.Name)] = string(f.Value)
		}
	}
	for {
		a.body = append(a.body, s.Buffered()...)
		s.Consume(len(s.Buffered()))
		if err := s.Fill(0, 0); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
	}
	for _, f := range s.Trailers().All() {
		a.trailers[string(f.Name)] = string(f.Value)
	}
	return a, nil
}

// theirCaller calls with the transport of net/http.
type theirCaller struct {
	address   string
	transport *http.Transport
}

func newTheirs(address string) *theirCaller {
	return &theirCaller{address, &http.Transport{Protocols: overClear()}}
}

func (o *theirCaller) close() { o.transport.CloseIdleConnections() }

func (o *theirCaller) do(t *testing.T, c *call) (*answer, error) {
	var body io.Reader
	if len(c.body)+len(c.trailers) > 0 {
		body = bytes.NewReader(c.body)
		if c.unsized || len(c.trailers) > 0 {
			body = io.MultiReader(body)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+o.address+c.path, body)
	if err != nil {
		return nil, err
	}
	for name, value := range c.fields {
		r.Header.Set(name, value)
	}
	for name, value := range c.trailers {
		if r.Trailer == nil {
			r.Trailer = http.Header{}
		}
		r.Trailer.Set(name, value)
	}
	w, err := o.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer w.Body.Close()
	a := &answer{status: w.StatusCode, fields: map[string]string{}, trailers: map[string]string{}}
	for name, values := range w.Header {
		a.fields[strings.ToLower(name)] = values[0]
	}
	if a.body, err = io.ReadAll(w.Body); err != nil {
		return nil, err
	}
	for name, values := range w.Trailer {
		a.trailers[strings.ToLower(name)] = values[0]
	}
	return a, nil
}

// pairs runs a body with each client against each server.
func pairs(t *testing.T, body func(t *testing.T, c caller, mine bool)) {
	for _, server := range []string{"our server", "their server"} {
		for _, client := range []string{"our client", "their client"} {
			t.Run(client+" "+server, func(t *testing.T) {
				address := listenTheirs(t, theirs)
				if server == "our server" {
					address = listen(t, Options{}, ours)
				}
				var c caller = newTheirs(address)
				if client == "our client" {
					c = &ourCaller{dial(t, address, Options{})}
				}
				defer c.close()
				body(t, c, client == "our client")
			})
		}
	}
}

func (a *answer) expect(t *testing.T, status int, body []byte, fields map[string]string) {
	t.Helper()
	if a.status != status || !bytes.Equal(a.body, body) {
		t.Errorf("status %d with %d bytes, want %d with %d", a.status, len(a.body), status, len(body))
	}
	for name, value := range fields {
		if a.fields[name] != value {
			t.Errorf("%s: %.60q, want %.60q", name, a.fields[name], value)
		}
	}
}

func TestExchanges(t *testing.T) {
	long := strings.Repeat("v", 20<<10)
	large := bytes.Repeat([]byte("0123456789abcdef"), 40<<10)
	for _, tt := range []struct {
		name     string
		call     call
		status   int
		body     []byte
		fields   map[string]string
		trailers map[string]string
	}{
		{"no body", call{method: "GET", path: "/echo"}, 200, nil, nil, nil},
		{"fields", call{method: "GET", path: "/echo", fields: map[string]string{"X-One": "1", "x-two": ""}},
			200, nil, map[string]string{"echo-x-one": "1", "echo-x-two": "", "content-type": "text/plain"}, nil},
		{"long fields", call{method: "GET", path: "/echo", fields: map[string]string{"X-Long": long, "x-longer": long}},
			200, nil, map[string]string{"echo-x-long": long, "echo-x-longer": long}, nil},
		{"cookie", call{method: "GET", path: "/echo", fields: map[string]string{"Cookie": "a=1; b=2"}},
			200, nil, map[string]string{"echo-cookie": "a=1; b=2"}, nil},
		{"small body", call{method: "POST", path: "/echo", body: []byte("hello")}, 200, []byte("hello"),
			map[string]string{"content-length": "5"}, nil},
		{"unsized body", call{method: "POST", path: "/echo", body: []byte("hello"), unsized: true}, 200, []byte("hello"), nil, nil},
		{"large body", call{method: "PUT", path: "/echo", body: large}, 200, large, nil, nil},
		{"trailers", call{method: "POST", path: "/echo", body: []byte("x"), unsized: true, trailers: map[string]string{"X-Sum": "9"}},
			200, []byte("x"), nil, map[string]string{"x-sum": "9"}},
		{"trailers alone", call{method: "POST", path: "/echo", unsized: true, trailers: map[string]string{"X-Sum": "9"}},
			200, nil, nil, map[string]string{"x-sum": "9"}},
		{"head", call{method: "HEAD", path: "/head"}, 200, nil, map[string]string{"content-length": "1234"}, nil},
		{"head alone", call{method: "POST", path: "/only", body: []byte("x")}, 200, nil, map[string]string{"grpc-status": "12"}, nil},
		{"no content", call{method: "DELETE", path: "/status/204"}, 204, nil, nil, nil},
		{"not modified", call{method: "GET", path: "/status/304"}, 304, nil, nil, nil},
		{"odd status", call{method: "GET", path: "/status/599"}, 599, nil, nil, nil},
		{"odd method", call{method: "FROB", path: "/echo?q=1"}, 200, nil, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pairs(t, func(t *testing.T, c caller, _ bool) {
				for range 4 { // the tables of the compression fill
					a, err := c.do(t, &tt.call)
					if err != nil {
						t.Fatal(err)
					}
					a.expect(t, tt.status, tt.body, tt.fields)
					if !maps.Equal(a.trailers, tt.trailers) && len(a.trailers)+len(tt.trailers) > 0 {
						t.Errorf("trailers %v, want %v", a.trailers, tt.trailers)
					}
				}
			})
		})
	}
}

func TestInterim(t *testing.T) {
	pairs(t, func(t *testing.T, c caller, mine bool) {
		a, err := c.do(t, &call{method: "GET", path: "/interim"})
		if err != nil {
			t.Fatal(err)
		}
		a.expect(t, 200, nil, nil)
		if mine && !slices.Equal(a.interim, []int{103, 103}) {
			t.Errorf("interim %v", a.interim)
		}
	})
}

// Many streams at once, with bodies larger than the windows.
func TestManyAtOnce(t *testing.T) {
	pairs(t, func(t *testing.T, c caller, _ bool) {
		var calls sync.WaitGroup
		for i := range 40 {
			calls.Go(func() {
				body := bytes.Repeat([]byte{byte(i)}, 1600*i)
				for range 4 {
					a, err := c.do(t, &call{method: "POST", path: "/echo", body: body, fields: map[string]string{"x-n": fmt.Sprint(i)}})
					if err != nil {
						t.Error(err)
						return
					}
					a.expect(t, 200, body, map[string]string{"echo-x-n": fmt.Sprint(i)})
				}
			})
		}
		calls.Wait()
	})
}
