package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTunnelBytes carries bytes of all sizes both ways over every pair of
// protocols, the first of them before the tunnel is open, and its end.
func TestTunnelBytes(t *testing.T) {
	handle := func(h *handshake) {
		p := h.open("welcome ")
		_, _ = io.Copy(struct{ io.Writer }{p}, struct{ io.Reader }{p})
		_, _ = io.WriteString(p, " farewell")
		_ = p.CloseWrite()
	}
	overTunnels(t, handle, func(t *testing.T, s *switcher) {
		o := s.mustOpen(s.ask("/chat", "early "))
		defer o.Close()
		o.reads(t, "welcome early ")
		for _, size := range []int{1, 125, 126, 65535, 65536, 1 << 20, 3 << 20} {
			sent := noise(size)
			var sending sync.WaitGroup
			sending.Go(func() { _, _ = o.Write(sent) })
			o.reads(t, string(sent))
			sending.Wait()
		}
		if err := o.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		o.reads(t, " farewell")
		o.ends(t)
		status := 101
		if s.streams() {
			status = 200
		}
		if r := s.g.recent(1)[0]; r.Status != status || r.Reason != "" || r.BytesIn < 4<<20 || r.BytesOut != r.BytesIn+int64(len("welcome  farewell")) {
			t.Errorf("%+v", r)
		}
	})
}

// TestTunnelHalfClose has the backend end its side first: the client can still
// send, and all of it arrives.
func TestTunnelHalfClose(t *testing.T) {
	var reports sync.Map // of chan string, by the path of the tunnel: the pairs run beside each other
	handle := func(h *handshake) {
		p := h.open("last words")
		_ = p.CloseWrite()
		rest, err := io.ReadAll(struct{ io.Reader }{p})
		report, _ := reports.Load(h.path)
		report.(chan string) <- fmt.Sprint(string(rest), " ", err)
	}
	overTunnels(t, handle, func(t *testing.T, s *switcher) {
		path, report := "/"+t.Name(), make(chan string, 1)
		reports.Store(path, report)
		o := s.mustOpen(s.ask(path, ""))
		defer o.Close()
		o.reads(t, "last words")
		o.ends(t)
		_, _ = io.WriteString(o, "and mine")
		_ = o.CloseWrite()
		if rest := within(t, report); rest != "and mine <nil>" {
			t.Errorf("the backend reads %q", rest)
		}
	})
}

// TestTunnelHandshake is what of a handshake arrives, and what of its answer.
func TestTunnelHandshake(t *testing.T) {
	handle := func(h *handshake) {
		var faults []string
		want := "GET"
		if h.stream != nil {
			want = "CONNECT"
		}
		if h.method != want || h.path != "/chat" || !strings.EqualFold(h.protocol, "websocket") {
			faults = append(faults, h.method, h.path, h.protocol)
		}
		if keys := h.header.Values("Sec-WebSocket-Key"); h.stream != nil && len(keys) != 0 || h.stream == nil && len(keys) != 1 {
			faults = append(faults, fmt.Sprint(len(keys), " keys"))
		}
		for name, value := range map[string]string{
			"Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": "chat, superchat", "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits",
			"Origin": "http://example.com", "Cookie": "a=b", "X-Forwarded-For": "127.0.0.1",
		} {
			if got := strings.Join(h.header[http.CanonicalHeaderKey(name)], "|") + strings.Join(h.header[strings.ToLower(name)], "|"); got != value {
				faults = append(faults, name+": "+got)
			}
		}
		_ = h.open(strings.Join(faults, "; ")+".", "Sec-WebSocket-Protocol", "superchat", "Set-Cookie", "c=d").CloseWrite()
	}
	overTunnels(t, handle, func(t *testing.T, s *switcher) {
		o := s.mustOpen(s.ask("/chat", "", "Sec-WebSocket-Protocol", "chat, superchat", "Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits",
			"Origin", "http://example.com", "Cookie", "a=b"))
		defer o.Close()
		o.reads(t, ".")
		if o.header.Get("Sec-WebSocket-Protocol") != "superchat" || o.header.Get("Set-Cookie") != "c=d" || o.header.Get("Content-Length") != "" {
			t.Errorf("%v", o.header)
		}
	})
}

// TestTunnelRefused is answers that open no tunnel: they are relayed with their
// bodies.
func TestTunnelRefused(t *testing.T) {
	handle := func(h *handshake) {
		if h.path == "/426" {
			h.refuse(426, "", "Sec-WebSocket-Version", "13, 8")
			return
		}
		h.refuse(403, "not you\n", "Content-Type", "text/plain")
	}
	overTunnels(t, handle, func(t *testing.T, s *switcher) {
		o := s.ask("/403", "")
		if o.status != 403 || o.header.Get("Content-Type") != "text/plain" || o.header.Get("Sec-WebSocket-Accept") != "" || o.header.Get("Upgrade") != "" {
			t.Errorf("%d %v", o.status, o.header)
		}
		o.reads(t, "not you\n")
		_ = o.Close()
		o = s.ask("/426", "")
		if o.status != 426 || o.header.Get("Sec-WebSocket-Version") != "13, 8" {
			t.Errorf("%d %v", o.status, o.header)
		}
		_ = o.Close()
	})
}

// TestTunnelAborted has either side break off: the other hears of it.
func TestTunnelAborted(t *testing.T) {
	heard := make(chan error, len(wires))
	handle := func(h *handshake) {
		p := h.open("open")
		if h.path == "/backend" {
			p.Abort()
			return
		}
		_, err := io.Copy(io.Discard, struct{ io.Reader }{p})
		heard <- err
		p.Abort()
	}
	overTunnels(t, handle, func(t *testing.T, s *switcher) {
		o := s.mustOpen(s.ask("/client", ""))
		o.reads(t, "open")
		o.Abort()
		within(t, heard)
		_ = o.Close()
		o = s.ask("/backend", "")
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{o.pipe}) // ends
		_ = o.Close()
		want := map[string]string{"/client": "client_gone", "/backend": "connection_terminated"}
		for _, r := range s.g.recent(2) { // either may be over first
			if r.Reason != want[r.Path] {
				t.Errorf("%+v, want %s", r, want[r.Path])
			}
		}
	})
}

// TestTunnelUnheard has one end write and leave for good while the other still
// sends, which is answered with a reset: what was written before arrives.
func TestTunnelUnheard(t *testing.T) {
	last := noise(40 << 10)
	t.Run("backend", func(t *testing.T) {
		var left sync.Map // of chan bool, by the path of the tunnel: the pairs run beside each other
		handle := func(h *handshake) {
			p := h.open("")
			_, _ = io.ReadFull(p, make([]byte, len("go")))
			_, _ = p.Write(last)
			if h.stream != nil {
				_ = p.CloseWrite()
			} else {
				allSent(h.conn.TCPConn)
				_ = h.conn.Close()
			}
			there, _ := left.Load(h.path)
			there.(chan bool) <- true
		}
		overTunnels(t, handle, func(t *testing.T, s *switcher) {
			path, there := "/"+t.Name(), make(chan bool, 1)
			left.Store(path, there)
			o := s.mustOpen(s.ask(path, ""))
			defer o.Close()
			if c, ok := o.pipe.(connPipe); ok {
				_ = c.SetReadBuffer(1 << 12) // so that most is still under way
			}
			_, _ = io.WriteString(o, "go")
			within(t, there)
			for range 100 {
				if _, err := io.WriteString(o, "what nobody reads"); err != nil {
					break // a stream that has ended
				}
				runtime.Gosched()
			}
			o.reads(t, string(last))
			o.ends(t)
		})
	})
	t.Run("client", func(t *testing.T) {
		report, gone := make(chan string, 1), make(chan struct{}, 1)
		handle := func(h *handshake) {
			p := h.open("")
			var pumping sync.WaitGroup
			pumping.Go(func() {
				for {
					if _, err := p.Write(last); err != nil {
						return
					}
				}
			})
			<-gone
			got, _ := io.ReadAll(struct{ io.Reader }{p})
			report <- string(got)
			p.Abort()
			pumping.Wait()
		}
		s := switcherOver(t, "HTTP/1", start(t, singleOver("HTTP/1", tunnelServer(t, "HTTP/1", handle))))
		o := s.mustOpen(s.ask("/chat", ""))
		o.reads(t, string(last[:1]))
		_, _ = o.Write(last)
		allSent(o.pipe.(connPipe).TCPConn)
		_ = o.Close()
		gone <- struct{}{}
		if got := within(t, report); got != string(last) {
			t.Errorf("%d bytes arrive of %d", len(got), len(last))
		}
	})
}

// allSent waits until the other side has acknowledged all that was written.
func allSent(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	for left := 1; left > 0; runtime.Gosched() {
		_ = raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
		if err != nil {
			return
		}
	}
}

// TestTunnelClientGoneInHalf has the client go after it has ended its own side:
// the backend hears of that too.
func TestTunnelClientGoneInHalf(t *testing.T) {
	heard := make(chan bool, len(wires))
	handle := func(h *handshake) {
		p := h.open("open")
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{p})
		for piece := noise(64 << 10); ; {
			if _, err := p.Write(piece); err != nil {
				break
			}
		}
		heard <- true
		p.Abort()
	}
	overTunnels(t, handle, func(t *testing.T, s *switcher) {
		o := s.mustOpen(s.ask("/chat", ""))
		o.reads(t, "open")
		_ = o.CloseWrite()
		o.Abort()
		within(t, heard)
		_ = o.Close()
	})
}

// TestTunnelsTogether has many tunnels at once, on HTTP/2 over one connection.
func TestTunnelsTogether(t *testing.T) {
	overTunnels(t, echoes, func(t *testing.T, s *switcher) {
		var all []*opened
		for n := range 30 {
			all = append(all, s.mustOpen(s.ask(fmt.Sprint("/", n), "")))
		}
		for round := range 5 {
			for n, o := range all {
				_, _ = fmt.Fprintf(o, "%d of %d", round, n)
			}
			for n, o := range all {
				o.reads(t, fmt.Sprintf("%d of %d", round, n))
			}
		}
		for n, o := range all {
			if n%2 == 0 {
				_ = o.CloseWrite()
				o.ends(t)
			}
			o.Abort()
			_ = o.Close()
		}
		s.g.recent(len(all))
	})
}

// TestTunnelBackPressure has a backend that reads late: what lies between it and
// the client is bounded, other tunnels go on, and nothing is lost.
func TestTunnelBackPressure(t *testing.T) {
	size := heldMost + 8<<20
	if raced {
		size = 4 << 20
	}
	piece := noise(1 << 20)
	for _, w := range byteWires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			late := make(chan struct{})
			handle := func(h *handshake) {
				if h.path != "/late" {
					echoes(h)
					return
				}
				p := h.open("")
				<-late
				_, _ = io.Copy(struct{ io.Writer }{p}, struct{ io.Reader }{p})
				_ = p.CloseWrite()
			}
			s := switcherOver(t, w.client, start(t, singleOver(w.upstream, tunnelServer(t, w.upstream, handle))))
			o := s.mustOpen(s.ask("/late", ""))
			defer o.Close()
			var written atomic.Int64
			var sending sync.WaitGroup
			sending.Go(func() {
				for range size / len(piece) {
					n, err := o.Write(piece)
					written.Add(int64(n))
					if err != nil {
						return
					}
				}
				_ = o.CloseWrite()
			})
			other := s.mustOpen(s.ask("/", ""))
			defer other.Close()
			for n := range 50 {
				_, _ = fmt.Fprint(other, n)
				other.reads(t, fmt.Sprint(n))
			}
			if n := written.Load(); n > heldMost {
				t.Errorf("%d bytes went through without a reader", n)
			}
			close(late)
			got := make([]byte, len(piece))
			for n := range size / len(piece) {
				if _, err := io.ReadFull(o, got); err != nil || !bytes.Equal(got, piece) {
					t.Fatalf("piece %d: %v", n, err)
				}
			}
			o.ends(t)
			sending.Wait()
		})
	}
}

// TestTunnelNotTaken is upstreams of HTTP/2 that take no tunnels, and routes that
// allow none.
func TestTunnelNotTaken(t *testing.T) {
	plain := serveOver(t, "HTTP/2", http.NotFoundHandler())
	for _, client := range []string{"HTTP/1", "HTTP/2"} {
		g := start(t, singleOver("HTTP/2", plain))
		if o := switcherOver(t, client, g).ask("/", ""); o.status != 501 || !strings.Contains(o.header.Get("Proxy-Status"), "http_upgrade_failed") {
			t.Errorf("%s: %d %v", client, o.status, o.header)
		} else {
			_ = o.Close()
		}
		for _, upstream := range []string{"HTTP/1", "HTTP/2"} {
			g = start(t, strings.Replace(singleOver(upstream, refusing(t)), "forward:", "upgrades: [], forward:", 1))
			o := switcherOver(t, client, g).ask("/", "")
			if o.status != 403 {
				t.Errorf("%s: %d %v", client, o.status, o.header)
			}
			_ = o.Close()
			if r := g.recent(1)[0]; r.Attempts != 0 {
				t.Errorf("%+v", r)
			}
		}
	}
}

// TestTunnelAffinity is the cookie that leads a client back to its endpoint, which
// an answer that opens a tunnel sets like any other.
func TestTunnelAffinity(t *testing.T) {
	for _, w := range byteWires {
		config := singleOver(w.upstream, tunnelServer(t, w.upstream, echoes))
		g := start(t, strings.Replace(config, "name: main, ", "name: main, sessionAffinity: {cookie: {name: hg, ttl: 1h}}, ", 1))
		s := switcherOver(t, w.client, g)
		o := s.mustOpen(s.ask("/chat", ""))
		cookie, _, _ := strings.Cut(o.header.Get("Set-Cookie"), ";")
		if !strings.HasPrefix(cookie, "hg=") {
			t.Fatalf("%s to %s: %v", w.client, w.upstream, o.header)
		}
		_ = o.Close()
		o = s.mustOpen(s.ask("/chat", "", "Cookie", cookie))
		if again := o.header.Get("Set-Cookie"); again != "" {
			t.Errorf("%s to %s: %s, set again", w.client, w.upstream, again)
		}
		_ = o.Close()
	}
}

// TestTunnelDrained is tunnels that a drain cuts when its time is over: both ends
// hear of it, and the log says why.
func TestTunnelDrained(t *testing.T) {
	ended := make(chan bool, 1)
	handle := func(h *handshake) {
		p := h.open("open")
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{p})
		ended <- true
	}
	for _, w := range byteWires {
		g := start(t, singleOver(w.upstream, tunnelServer(t, w.upstream, handle)))
		s := switcherOver(t, w.client, g)
		o := s.mustOpen(s.ask("/chat", ""))
		o.reads(t, "open")
		over, cancel := context.WithCancel(context.Background())
		cancel()
		g.drained.Do(func() { g.drainAll(over) })
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{o.pipe}) // ends
		within(t, ended)
		if r := g.recent(1)[0]; r.Reason != "" || !strings.Contains(r.Detail, "drain") {
			t.Errorf("%s to %s: %+v", w.client, w.upstream, r)
		}
		_ = o.Close()
	}
}
