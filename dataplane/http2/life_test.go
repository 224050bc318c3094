package http2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/headgate/headgate/dataplane/socket"
)

func open(t *testing.T, client *Client, end bool) *Stream {
	t.Helper()
	s, err := client.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	head := benchHead
	head.Target = []byte("/echo")
	if err := s.WriteRequestHead(&head, end, 0); err != nil {
		t.Fatal(err)
	}
	return s
}

// A call that is cancelled reaches the handler at once, and a handler's reset the
// caller.
func TestResetBothWays(t *testing.T) {
	began, lost := make(chan struct{}), make(chan error, 1)
	client := dial(t, listen(t, Options{}, func(s *Stream) {
		s.MayWait()
		gone := make(chan struct{})
		s.OnReset(func() { close(gone) })
		began <- struct{}{}
		select {
		case <-gone:
			if !s.Gone() {
				t.Error("not gone")
			}
			lost <- s.Err()
		case <-began:
			s.Reset(EnhanceYourCalm)
		}
	}), Options{})

	s := open(t, client, false)
	<-began
	s.Finish()
	var fault *StreamError
	if err := <-lost; !errors.As(err, &fault) || fault.Code != Cancel || !fault.Remote {
		t.Errorf("the handler saw %v", err)
	}

	s = open(t, client, false)
	<-began
	began <- struct{}{}
	if _, err := s.ReadHead(0); !errors.As(err, &fault) || fault.Code != EnhanceYourCalm || !fault.Remote {
		t.Errorf("the caller saw %v", err)
	}
	if _, err := s.WriteData([]byte("x"), true, 0); !errors.As(err, &fault) {
		t.Errorf("the writer saw %v", err)
	}
	called := false
	s.OnReset(func() { called = true })
	if !called {
		t.Error("a hook that came late was not called")
	}
	s.Finish()
	if n := client.Streams(); n != 0 {
		t.Errorf("%d streams open", n)
	}
}

// A hook that was taken back does not run, however near the reset.
func TestHookTakenBack(t *testing.T) {
	p, client := serverPeer(t, Options{})
	for i := range 200 {
		s := open(t, client, false)
		var over atomic.Bool
		s.OnReset(func() {
			if over.Load() {
				t.Error("ran after it was taken back")
			}
		})
		for !strings.HasPrefix(p.next(), "HEADERS") {
		}
		p.ok(p.fr.WriteRSTStream(uint32(2*i+1), xhttp2.ErrCodeCancel))
		s.OnReset(nil)
		over.Store(true)
		s.Finish()
	}
}

// What a server refused, and what it never looked at, can be sent again.
func TestNotProcessed(t *testing.T) {
	p, client := serverPeer(t, Options{})
	a, b, c := open(t, client, true), open(t, client, true), open(t, client, true)
	for range 3 {
		p.expect("HEADERS")
	}
	p.ok(p.fr.WriteRSTStream(3, xhttp2.ErrCodeRefusedStream))
	if _, err := b.ReadHead(0); !errors.Is(err, ErrNotProcessed) {
		t.Errorf("refused: %v", err)
	}
	p.ok(p.fr.WriteGoAway(1<<31-1, xhttp2.ErrCodeNo, nil))
	p.ok(p.fr.WriteGoAway(3, xhttp2.ErrCodeNo, nil))
	if _, err := c.ReadHead(0); !errors.Is(err, ErrNotProcessed) {
		t.Errorf("above the last: %v", err)
	}
	if client.CanTake() {
		t.Error("takes streams after GOAWAY")
	}
	if _, err := client.NewStream(); !errors.Is(err, ErrNotProcessed) {
		t.Errorf("new: %v", err)
	}
	// The one that was taken is answered, and then the connection ends.
	p.headers(1, false, ":status", "200")
	p.ok(p.fr.WriteData(1, true, []byte("done")))
	got, err := readAnswer(a)
	if err != nil || string(got.body) != "done" {
		t.Errorf("%v, %v", got, err)
	}
	for _, s := range []*Stream{a, b, c} {
		s.Finish()
	}
	<-client.Done()
	if err := client.Err(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// A connection that is lost fails its streams, and says that of them nothing is
// known; and not that their bodies are whole.
func TestLostConnection(t *testing.T) {
	p, client := serverPeer(t, Options{})
	s := open(t, client, true)
	p.expect("HEADERS")
	p.net.Close()
	var lost *ConnError
	if _, err := s.ReadHead(0); !errors.As(err, &lost) || errors.Is(err, ErrNotProcessed) {
		t.Errorf("%v", err)
	}
	if err := s.Fill(0, 0); !errors.As(err, &lost) || errors.Is(err, io.EOF) {
		t.Errorf("its body: %v", err)
	}
	s.Finish()
	<-client.Done()
	if _, err := client.NewStream(); !errors.As(err, &lost) || !errors.As(client.Err(), &lost) {
		t.Errorf("a stream on a lost connection: %v", err)
	}
}

// A client that goes away and still asks, in the same bytes, is answered first.
func TestPeerGoesAwayAndAsks(t *testing.T) {
	c := clientPeer(t, listen(t, Options{}, echo))
	block := newPeerBlock(get1()...)
	bytes := append(rawFrame(frameGoAway, 0, 0, make([]byte, 8)), rawFrame(frameHeaders, flagEndHeaders|flagEndStream, 1, block)...)
	c.raw(append(bytes, rawFrame(frameHeaders, flagEndHeaders|flagEndStream, 3, block)...))
	ends := 0
	for ends < 2 {
		if strings.HasPrefix(c.expect("DATA"), "DATA") {
			ends++
		}
	}
	c.expect("GOAWAY 3 NO_ERROR")
	if got := c.next(); got != "closed" {
		t.Errorf("then %q", got)
	}
}

// A peer that goes away with a fault is not reset: what it still sends is read.
func TestPeerGoesAway(t *testing.T) {
	ended := make(chan error, 1)
	c := clientPeer(t, listenWith(t, Options{}, echo, func(err error) { ended <- err }))
	c.ok(c.fr.WriteGoAway(0, xhttp2.ErrCode(77), []byte("why")))
	c.expect("GOAWAY 0 NO_ERROR")
	c.ok(c.fr.WritePing(false, [8]byte{}))
	if _, err := c.fr.ReadFrame(); !errors.Is(err, io.EOF) {
		t.Errorf("read %v", err)
	}
	c.net.Close()
	var fault *ConnError
	if err := <-ended; !errors.As(err, &fault) || !fault.Remote || fault.Code != 77 || fault.Reason != "why" {
		t.Errorf("ended with %v", err)
	}
}

// A client may close when it wants nothing more, and not before.
func TestClientLeaves(t *testing.T) {
	ended := make(chan error, 1)
	address := listenWith(t, Options{}, echo, func(err error) { ended <- err })
	for _, busy := range []bool{false, true} {
		c := clientPeer(t, address)
		c.headers(1, !busy, get1()...)
		if c.expect("HEADERS 1"); !busy {
			c.expect("DATA 1 0 end")
		}
		c.net.Close()
		if err := <-ended; (err != nil) != busy {
			t.Errorf("busy %v: %v", busy, err)
		}
	}
}

// The peer's limit of streams is kept.
func TestFull(t *testing.T) {
	_, client := serverPeer(t, Options{}, xhttp2.Setting{ID: xhttp2.SettingMaxConcurrentStreams, Val: 2}, xhttp2.Setting{ID: settingExtendedConnect, Val: 1})
	if err := client.AwaitSettings(socket.Now() + int64(10*time.Second)); err != nil || !client.ExtendedConnect() {
		t.Fatal(err)
	}
	a, err := client.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, client, true)
	if _, err := client.NewStream(); !errors.Is(err, ErrFull) || client.CanTake() {
		t.Errorf("third: %v", err)
	}
	a.Finish()
	if !client.CanTake() {
		t.Error("still full")
	}
	b.Finish()
}

// A response that came whole is kept though the server then resets the stream,
// which it may to stop an upload.
func TestAnswerThenReset(t *testing.T) {
	p, client := serverPeer(t, Options{})
	s := open(t, client, false)
	p.expect("HEADERS")
	p.headers(1, false, ":status", "413")
	p.ok(p.fr.WriteData(1, true, []byte("too large")))
	p.ok(p.fr.WriteRSTStream(1, xhttp2.ErrCodeNo))
	for !s.Gone() {
		if _, err := s.WriteData([]byte("more"), false, 0); err != nil {
			break
		}
	}
	got, err := readAnswer(s)
	if err != nil || got.status != 413 || string(got.body) != "too large" {
		t.Errorf("%v, %v", got, err)
	}
	s.Finish()
}

// Responses that break their stream.
func TestMalformedResponses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		end   bool
		pairs []string
	}{
		{"no status", true, []string{"a", "b"}},
		{"bad status", true, []string{":status", "20"}},
		{"status 101", false, []string{":status", "101"}},
		{"path", true, []string{":status", "200", ":path", "/"}},
		{"interim that ends", true, []string{":status", "100"}},
		{"upper case", true, []string{":status", "200", "A", "b"}},
		{"connection", true, []string{":status", "200", "connection", "close"}},
		{"lengths that differ", true, []string{":status", "200", "content-length", "0", "content-length", "1"}},
		{"length without body", true, []string{":status", "200", "content-length", "1"}},
		{"large", true, []string{":status", "200", "a", strings.Repeat("b", 5000)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, client := serverPeer(t, Options{MaxHeaderBytes: 4 << 10})
			s := open(t, client, true)
			p.expect("HEADERS")
			p.headers(1, tt.end, tt.pairs...)
			var fault *StreamError
			if _, err := s.ReadHead(0); !errors.As(err, &fault) || fault.Code != ProtocolError || fault.Remote {
				t.Errorf("%v", err)
			}
			p.expect("RST 1 PROTOCOL_ERROR")
			s.Finish()
		})
	}
}

// What a body that came out wrong looks like to the reader.
func TestBrokenResponseBodies(t *testing.T) {
	for _, tt := range []struct {
		name string
		send func(p *peer)
	}{
		{"short", func(p *peer) { p.ok(p.fr.WriteData(1, true, []byte("ab"))) }},
		{"long", func(p *peer) { p.ok(p.fr.WriteData(1, false, []byte("abcd"))) }},
		{"reset", func(p *peer) { p.ok(p.fr.WriteRSTStream(1, xhttp2.ErrCodeInternal)) }},
		{"trailers early", func(p *peer) { p.headers(1, true, "a", "b") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, client := serverPeer(t, Options{})
			s := open(t, client, true)
			p.expect("HEADERS")
			p.headers(1, false, ":status", "200", "content-length", "3")
			tt.send(p)
			if _, err := readAnswer(s); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("ended with %v", err)
			}
			s.Finish()
		})
	}
}

// A read that another goroutine ends, and that goes on later.
func TestInterrupt(t *testing.T) {
	p, client := serverPeer(t, Options{})
	s := open(t, client, true)
	ended := make(chan error)
	go func() {
		_, err := s.ReadHead(0)
		ended <- err
		ended <- s.Fill(0, 0)
	}()
	s.Interrupt()
	for range 2 {
		if err := <-ended; !errors.Is(err, socket.ErrInterrupted) {
			t.Errorf("%v", err)
		}
	}
	s.Resume()
	p.headers(1, true, ":status", "204")
	if head, err := s.ReadHead(0); err != nil || head.Status != 204 || !s.HeadOnly() {
		t.Errorf("%v", err)
	}
	s.Finish()
}

// Deadlines end waits, and the stream goes on.
func TestDeadlines(t *testing.T) {
	p, client := serverPeer(t, Options{}, xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 3})
	s := open(t, client, false)
	p.expect("HEADERS")
	soon := func() int64 { return socket.Now() + int64(time.Millisecond) }
	if _, err := s.ReadHead(soon()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("head: %v", err)
	}
	p.headers(1, false, ":status", "200")
	if _, err := s.ReadHead(0); err != nil {
		t.Fatal(err)
	}
	if err := s.Fill(0, soon()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("body: %v", err)
	}
	if n, err := s.WriteData([]byte("abcde"), true, soon()); n != 3 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes: %v", n, err)
	}
	p.ok(p.fr.WriteWindowUpdate(1, 2))
	if n, err := s.WriteData([]byte("de"), true, 0); n != 2 || err != nil {
		t.Errorf("%d bytes: %v", n, err)
	}
	p.expect("DATA 1 2 end")
	p.ok(p.fr.WriteData(1, true, []byte("x")))
	if err := s.Fill(0, 0); err != nil || string(s.Buffered()) != "x" {
		t.Errorf("%q, %v", s.Buffered(), err)
	}
	s.Finish()
}

// Shutdown of a server loses no request: those that were on their way are served.
func TestShutdownLosesNothing(t *testing.T) {
	here, there := net.Pipe()
	s := NewServer(socket.New(here), Options{}, echo)
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Serve(); err != nil {
			t.Errorf("server ended with %v", err)
		}
	})
	client := NewClient(socket.New(there), Options{})
	client.Start()
	var answered, refused atomic.Int64
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			c := &ourCaller{client}
			for n := 0; ; n++ {
				if i == 0 && n == 20 {
					s.Shutdown()
				}
				body := bytes.Repeat([]byte{'a'}, 100*n)
				got, err := c.do(t, &call{method: "POST", path: "/echo", body: body})
				switch {
				case errors.Is(err, ErrNotProcessed):
					refused.Add(1)
					return
				case err != nil:
					t.Errorf("a request was lost: %v", err)
					return
				case !bytes.Equal(got.body, body):
					t.Error("wrong body")
				}
				answered.Add(1)
			}
		})
	}
	calls.Wait()
	running.Wait()
	<-client.Done()
	if answered.Load() < 20 {
		t.Errorf("%d answered, %d refused", answered.Load(), refused.Load())
	}
}

// Both sides over a pipe in made time.
func inBubble(t *testing.T, server, client Options, handle func(*Stream), body func(t *testing.T, s *Server, c *Client, ended chan error)) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		s := NewServer(socket.New(here), server, handle)
		c := NewClient(socket.New(there), client)
		ended := make(chan error, 1)
		go func() { ended <- s.Serve() }()
		c.Start()
		body(t, s, c, ended)
		c.Close()
		s.Close()
		<-c.Done()
		synctest.Wait()
	})
}

func TestIdleTimeout(t *testing.T) {
	inBubble(t, Options{IdleTimeout: time.Minute}, Options{}, echo, func(t *testing.T, _ *Server, c *Client, ended chan error) {
		began := time.Now()
		time.Sleep(30 * time.Second)
		get(t, c)
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
		if d := time.Since(began).Round(time.Second); d < 90*time.Second || d > 92*time.Second {
			t.Errorf("ended after %v", d)
		}
		<-c.Done()
	})
}

func TestQuietConnectionHoldsNothing(t *testing.T) {
	inBubble(t, Options{}, Options{}, echo, func(t *testing.T, s *Server, c *Client, _ chan error) {
		for range 10 {
			get(t, c)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		for _, conn := range []*conn{&s.conn, &c.conn} {
			conn.mu.Lock()
			if len(conn.spare)+len(conn.workers)+conn.staff+len(conn.out) != 0 || conn.out != nil {
				t.Errorf("holds %d streams, %d workers, %d bytes", len(conn.spare), conn.staff, len(conn.out))
			}
			conn.mu.Unlock()
		}
		get(t, c) // and still works
	})
}

// A peer that is gone without a word is found by PING.
func TestKeepalive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		c := NewClient(socket.New(here), Options{PingAfter: 10 * time.Second, PingTimeout: 5 * time.Second})
		c.Start()
		p := newPeer(t, there)
		_ = there.SetDeadline(time.Time{})
		greeting := make([]byte, len(preface))
		_, err := io.ReadFull(there, greeting)
		p.ok(err)
		pings := make(chan struct{}, 100)
		answer := atomic.Bool{}
		answer.Store(true)
		go func() {
			for {
				f, err := p.fr.ReadFrame()
				if err != nil {
					return
				}
				switch f := f.(type) {
				case *xhttp2.SettingsFrame:
					if !f.IsAck() {
						_ = p.fr.WriteSettings()
						_ = p.fr.WriteSettingsAck()
					}
				case *xhttp2.PingFrame:
					pings <- struct{}{}
					if answer.Load() {
						_ = p.fr.WritePing(true, f.Data)
					}
				}
			}
		}()
		s, err := c.NewStream()
		p.ok(err)
		p.ok(s.WriteRequestHead(&benchHead, true, 0))
		time.Sleep(35 * time.Second)
		if n := len(pings); n != 3 {
			t.Errorf("%d pings in 35 s", n)
		}
		if c.Err() != nil {
			t.Errorf("ended with %v", c.Err())
		}
		answer.Store(false)
		if _, err := s.ReadHead(0); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("%v", err)
		}
		s.Finish()
		<-c.Done()
		there.Close()
	})
}

// A peer that begins something and does not go on is ended in time.
func TestSlowPeers(t *testing.T) {
	settings := appendSettings(nil)
	ack := rawFrame(frameSettings, flagAck, 0, nil)
	all := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for _, tt := range []struct {
		name  string
		sends []byte
		after time.Duration
	}{
		{"nothing", nil, 15 * time.Second}, // it has not acknowledged our settings
		{"half a preface", []byte(preface[:10]), 15 * time.Second},
		{"no acknowledgement", all([]byte(preface), settings), 15 * time.Second},
		{"half a frame", all([]byte(preface), settings, ack, []byte{0, 0, 9, 1}), 30 * time.Second},
		{"half a block", all([]byte(preface), settings, ack, rawFrame(frameHeaders, 0, 1, nil)), 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				s := NewServer(socket.New(here), Options{}, echo)
				began := time.Now()
				go func() { _, _ = io.Copy(io.Discard, there) }()
				if len(tt.sends) > 0 {
					go func() { _, _ = there.Write(tt.sends) }()
				}
				err := s.Serve()
				if err == nil {
					t.Error("ended well")
				}
				if d := time.Since(began); d < tt.after || d > tt.after+2*time.Second {
					t.Errorf("ended after %v, want %v", d, tt.after)
				}
				there.Close()
			})
		})
	}
}
