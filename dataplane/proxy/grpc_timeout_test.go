package proxy_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// A grpcCaller is a client of gRPC that says how long it waits.
type grpcCaller struct {
	t  testing.TB
	g  *gate
	f  *framer // nil on HTTP/1
	p  *peer
	id uint32
}

func grpcCallerOver(t testing.TB, protocol string, g *gate) *grpcCaller {
	if protocol == "HTTP/1" {
		return &grpcCaller{t: t, g: g, p: g.dial()}
	}
	return &grpcCaller{t: t, g: g, f: g.frames()}
}

func (c *grpcCaller) calls(timeouts ...string) {
	c.t.Helper()
	if c.f != nil {
		fields := []string{"content-type", "application/grpc", "te", "trailers", "content-length", "4"}
		for _, timeout := range timeouts {
			fields = append(fields, "grpc-timeout", timeout)
		}
		c.id = c.f.open(false, "POST", "/s/m", fields...)
		c.f.must(c.f.WriteData(c.id, true, []byte("call")))
		return
	}
	lines := ""
	for _, timeout := range timeouts {
		lines += "Grpc-Timeout: " + timeout + "\r\n"
	}
	c.p.send("POST /s/m HTTP/1.1\r\nHost: h\r\nContent-Type: application/grpc\r\nTE: trailers\r\nConnection: TE\r\n" + lines + "Content-Length: 4\r\n\r\ncall")
}

// answered waits for an answer without a body and returns its status and that of
// the call.
func (c *grpcCaller) answered() (status, call string) {
	c.t.Helper()
	if c.f != nil {
		r := c.f.await(c.id)
		if !r.clean || len(r.body) > 0 || r.trailers != nil {
			c.t.Errorf("%+v", r)
		}
		return r.status, r.get("grpc-status")
	}
	head := c.p.head()
	if !strings.Contains(head, "\r\nContent-Length: 0\r\n") || !strings.Contains(head, "\r\ncontent-type: application/grpc\r\n") {
		c.t.Errorf("%q", head)
	}
	_, call, _ = strings.Cut(head, "\r\ngrpc-status: ")
	call, _, _ = strings.Cut(call, "\r\n")
	return head[len("HTTP/1.1 "):][:3], call
}

// timeoutOf is what an upstream is given of the time of a call, and its unit.
func timeoutOf(t testing.TB, value string) time.Duration {
	t.Helper()
	if value == "" || len(value) > 9 {
		t.Fatalf("the backend is told %q", value)
	}
	n, err := strconv.ParseInt(value[:len(value)-1], 10, 64)
	unit := map[byte]time.Duration{'n': 1, 'u': time.Microsecond, 'm': time.Millisecond, 'S': time.Second, 'M': time.Minute, 'H': time.Hour}[value[len(value)-1]]
	if err != nil || unit == 0 || n < 1 {
		t.Fatalf("the backend is told %q", value)
	}
	return time.Duration(n) * unit
}

// callServer is a backend in a protocol that takes calls and holds them.
type callServer struct {
	*backend
	protocol string
	up1      *peer
	up2      *framer
	id       uint32
}

// takes waits for a call and returns how long it may take.
func (s *callServer) takes() string {
	s.t.Helper()
	if s.protocol == "HTTP/2" {
		if s.up2 == nil {
			s.up2 = s.frames()
		}
		head := s.up2.request()
		s.id = head.StreamID
		return fieldOf(head.RegularFields(), "grpc-timeout")
	}
	s.up1 = s.accept()
	_, value, _ := strings.Cut(s.up1.head(), "\r\ngrpc-timeout: ")
	value, _, _ = strings.Cut(value, "\r\n")
	if got, err := s.up1.read(4); got != "call" {
		s.t.Fatalf("%q, %v", got, err)
	}
	return value
}

// cancelled waits until the call is over for the backend.
func (s *callServer) cancelled() {
	s.t.Helper()
	if s.protocol == "HTTP/1" {
		s.up1.gone()
	} else if code := s.up2.resets(s.id); code != http2.ErrCodeCancel {
		s.t.Errorf("cancelled with %v", code)
	}
}

// TestCallTimeout has calls run out of time: the backend is told how much there
// is, the client that it is over, and the backend too.
func TestCallTimeout(t *testing.T) {
	for _, w := range byteWires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			s := &callServer{backend: newBackend(t), protocol: w.upstream}
			g := start(t, singleOver(w.upstream, s.address()))
			c := grpcCallerOver(t, w.client, g)
			c.calls("2S")
			if told := timeoutOf(t, s.takes()); told >= 2*time.Second {
				t.Errorf("the backend is given %v", told)
			}
			if status, call := c.answered(); status != "200" || call != "4" {
				t.Errorf("answered with %s, grpc-status %s", status, call)
			}
			s.cancelled()
			if r := g.recent(1)[0]; r.Status != 504 || r.Attempts != 1 || r.Reason != "http_response_timeout" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestCallTimeoutInTheMiddle has the time of a call run out while its answer
// streams: it ends with a status of its own.
func TestCallTimeoutInTheMiddle(t *testing.T) {
	for _, w := range byteWires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			s := &callServer{backend: newBackend(t), protocol: w.upstream}
			g := start(t, singleOver(w.upstream, s.address()))
			c := grpcCallerOver(t, w.client, g)
			c.calls("2S")
			s.takes()
			if s.protocol == "HTTP/1" {
				s.up1.send("HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n")
			} else {
				s.up2.answer(s.id, false, ":status", "200", "content-type", "application/grpc")
				s.up2.must(s.up2.WriteData(s.id, false, []byte("some")))
			}
			if c.f != nil {
				if r := c.f.await(c.id); r.status != "200" || string(r.body) != "some" || !r.clean || fieldOf(r.trailers, "grpc-status") != "4" {
					t.Errorf("%+v", r)
				}
			} else {
				c.p.head()
				c.p.sees("4\r\nsome\r\n0\r\ngrpc-status: 4\r\ngrpc-message: the time of the call is over\r\n\r\n")
				c.p.ends()
			}
			s.cancelled()
		})
	}
}

// TestCallTimeoutForms is what can be read, and what the backend is then given:
// less than was there, in a form that holds it.
func TestCallTimeoutForms(t *testing.T) {
	for _, w := range byteWires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			unused := newBackend(t)
			g := start(t, singleOver(w.upstream, unused.address()))
			for _, bad := range [][]string{
				{""}, {"1"}, {"S"}, {"1s"}, {"1h"}, {"-1S"}, {"+1S"}, {"1.5S"}, {"123456789S"}, {"1 S"}, {"0x1S"}, {"1SS"}, {"1N"}, {"1U"}, {"١S"}, {"1S", "1S"},
			} {
				c := grpcCallerOver(t, w.client, g)
				c.calls(bad...)
				if status, call := c.answered(); status != "200" || call != "13" {
					t.Errorf("%q: %s, grpc-status %s", bad, status, call)
				}
			}
			unused.untouched()
			for given, want := range map[string]time.Duration{
				"20S": 20 * time.Second, "00000020S": 20 * time.Second, "99999999u": 99999999 * time.Microsecond, "5M": 5 * time.Minute,
				"99999999n": 99999999, "99999999S": 99999999 * time.Second, "99999999H": math.MaxInt64, "40000m": 40 * time.Second, "30H": 30 * time.Hour,
			} {
				// Another data plane for each: it has one connection to the backend.
				s := &callServer{backend: newBackend(t), protocol: w.upstream}
				c := grpcCallerOver(t, w.client, start(t, singleOver(w.upstream, s.address())))
				c.calls(given)
				told := timeoutOf(t, s.takes())
				if told > want || given != "99999999n" && given != "99999999H" && told < want-patience {
					t.Errorf("of %s the backend is given %v", given, told)
				}
				c.leaves()
				s.cancelled()
			}
		})
	}
}

func (c *grpcCaller) leaves() {
	if c.f != nil {
		_ = c.f.conn.Close()
	} else {
		c.p.close()
	}
}

// TestCallTimeoutAndRoute goes by the sooner of the call's time and the route's,
// leaves alone what is no call of gRPC, and lets the route take the field out.
func TestCallTimeoutAndRoute(t *testing.T) {
	b := newBackend(t)
	route := "routes: [{name: all, requestHeaders: {remove: [%s]}, forward: {backends: [{cluster: main}], timeouts: {request: %s}}}]"
	config := func(remove, request string) string {
		return manifest("clusters: [{name: main, endpoints: [{address: '"+b.address()+"'}]}]", fmt.Sprintf(route, remove, request))
	}
	g := start(t, config("x", "2s"))
	c := grpcCallerOver(t, "HTTP/2", g)
	c.calls("1H")
	s := &callServer{backend: b, protocol: "HTTP/1"}
	if told := timeoutOf(t, s.takes()); told < 59*time.Minute || told >= time.Hour {
		t.Errorf("the backend is given %v", told)
	}
	if status, call := c.answered(); status != "200" || call != "4" {
		t.Errorf("%s, grpc-status %s", status, call)
	}
	s.cancelled()
	g.apply(config("grpc-timeout", "60s"))
	c.calls("60S")
	if told := s.takes(); told != "" {
		t.Errorf("the backend is given %q", told)
	}
	s.up1.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	c.answered()
	g.apply(config("x", "60s"))
	client := g.dial()
	client.send("GET / HTTP/1.1\r\nHost: h\r\nGrpc-Timeout: whatever\r\n\r\n")
	up := b.accept()
	if head := up.head(); !strings.Contains(head, "Grpc-Timeout: whatever\r\n") {
		t.Errorf("%q", head)
	}
	up.send(plainAnswer)
	client.sees(dated(plainAnswer))
}
