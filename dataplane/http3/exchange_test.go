package http3

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

func TestExchange(t *testing.T) {
	p := open(t, Options{}, echo).dial().greet()
	r := p.open("POST", "/a", "x-a", "1", "cookie", "a=1", "cookie", "b=2", "te", "trailers", "under_score", "no")
	r.send(dataOf("hello, "), dataOf(""), frameOf(0x21, []byte("unknown")), dataOf("world"),
		frameOf(frameHeaders, section("x-sum", "12", "authorization", "dropped")), frameOf(0x21, nil))
	r.end()
	got := r.reply()
	if got.err != nil || got.status != "200" || string(got.body) != "hello, world" || !maps.Equal(got.trailers, map[string]string{"x-sum": "12"}) {
		t.Errorf("%+v", got)
	}
	if want := map[string]string{":status": "200", "echo-x-a": "1", "echo-cookie": "a=1; b=2"}; !maps.Equal(got.fields, want) {
		t.Errorf("fields %v, want %v", got.fields, want)
	}
	if got := p.get("/"); got.err != nil || got.fields["no-body"] != "1" || len(got.body) > 0 {
		t.Errorf("%+v", got)
	}
}

// A request whose end comes apart from its head has no body all the same, unless
// its method says that one is to be expected.
func TestEndApart(t *testing.T) {
	heads := make(chan message.BodyKind)
	p := open(t, Options{}, func(s *Stream) {
		heads <- s.Request().Body.Kind
		echo(s)
	}).dial().greet()
	get := p.open("GET", "/")
	post := p.open("POST", "/") // is not held up
	if kind := <-heads; kind != message.BodyChunked {
		t.Errorf("POST: kind %v", kind)
	}
	get.end()
	if kind := <-heads; kind != message.BodyNone {
		t.Errorf("GET: kind %v", kind)
	}
	post.end()
	for _, r := range []*request{get, post} {
		if got := r.reply(); got.status != "200" || got.err != nil {
			t.Errorf("%+v", got)
		}
	}
}

// Frames and pieces of any sizes: the body is the same.
func TestPieces(t *testing.T) {
	p := open(t, Options{}, echo).dial().greet()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 8_000)), 0, 40).Draw(t, "frames")
		cuts := rapid.SliceOfN(rapid.IntRange(1, 20_000), 1, 10).Draw(t, "writes")
		var wire, want []byte
		for i, size := range sizes {
			body := bytes.Repeat([]byte{byte(i)}, size)
			want = append(want, body...)
			wire = append(wire, frameOf(frameData, body)...)
			if i%7 == 3 {
				wire = append(wire, frameOf(0x40, body[:size/2])...)
			}
		}
		r := p.open("POST", "/")
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := 0; len(wire) > 0; i++ {
				n := min(len(wire), cuts[i%len(cuts)])
				r.send(wire[:n])
				wire = wire[n:]
			}
			r.end()
		}()
		got := r.reply()
		<-done
		if got.err != nil || !bytes.Equal(got.body, want) {
			t.Fatalf("%d bytes of %d: %v", len(got.body), len(want), got.err)
		}
	})
}

// A large body goes both ways, with back-pressure between.
func TestLarge(t *testing.T) {
	p := open(t, Options{}, echo).dial().greet()
	body := make([]byte, 4<<20)
	for i := range body {
		body[i] = byte(rand.Uint32())
	}
	r := p.open("POST", "/", "content-length", fmt.Sprint(len(body)))
	go func() {
		r.send(frameOf(frameData, body))
		r.end()
	}()
	if got := r.reply(); got.err != nil || !bytes.Equal(got.body, body) {
		t.Errorf("%d bytes, %v", len(got.body), got.err)
	}
}

// A body that nobody reads stops at its window, and does not stop another.
func TestBackPressure(t *testing.T) {
	leave := make(chan struct{})
	p := open(t, Options{}, func(s *Stream) {
		if string(s.Request().Path) == "/unread" {
			<-leave
		}
		echo(s)
	}).dial().greet()
	unread := p.open("POST", "/unread")
	_ = unread.SetWriteDeadline(at(socket.Now() + 300e6)) // only for it to give up
	n, err := unread.Write(frameOf(frameData, make([]byte, 10<<20)))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n > 2*streamWindow {
		t.Errorf("%d bytes were taken that nobody read, %v", n, err)
	}
	r := p.open("POST", "/")
	body := bytes.Repeat([]byte("x"), 2<<20)
	go func() {
		r.send(frameOf(frameData, body))
		r.end()
	}()
	if got := r.reply(); got.err != nil || !bytes.Equal(got.body, body) {
		t.Errorf("%d bytes beside it, %v", len(got.body), got.err)
	}
	unread.CancelWrite(quic.StreamErrorCode(RequestCancelled))
	close(leave)
}

// What a user of a stream is told in each case.
func TestStreamErrors(t *testing.T) {
	type told struct {
		fill, write error
		gone        bool
	}
	results, cancelled := make(chan told), make(chan struct{}, 1)
	p := open(t, Options{}, func(s *Stream) {
		var r told
		switch string(s.Request().Path) {
		case "/late":
			r.fill = s.Fill(0, socket.Now()+1e6)
		case "/interrupted":
			go s.Interrupt()
			r.fill = s.Fill(0, 0)
			if again := s.Fill(0, 0); !errors.Is(again, socket.ErrInterrupted) {
				r.fill = again
			}
			s.Resume()
			if later := s.Fill(0, socket.Now()+1e6); !errors.Is(later, os.ErrDeadlineExceeded) {
				r.fill = later
			}
		case "/slow":
			_ = s.WriteResponseHead(200, &noTrailers, false, 0)
			_, r.write = s.WriteData(make([]byte, 32<<20), false, socket.Now()+50e6)
			if _, again := s.WriteData([]byte("x"), false, 0); again == nil {
				r.write = again
			}
			s.Reset(http2.Cancel)
		case "/cancelled":
			hook := make(chan struct{})
			s.OnReset(func() { close(hook) })
			cancelled <- struct{}{}
			<-hook
			s.OnReset(nil)
			r.gone = s.Gone()
			r.write = s.WriteResponseHead(200, &noTrailers, false, 0)
		case "/withdrawn":
			cancelled <- struct{}{}
			r.fill = s.Fill(0, 0)
			r.gone = s.Gone()
		case "/ended":
			r.write = s.WriteResponseHead(200, &noTrailers, true, 0)
			r.gone = s.Gone()
		}
		results <- r
	}).dial().greet()

	r := p.open("POST", "/late")
	if got := <-results; !errors.Is(got.fill, os.ErrDeadlineExceeded) {
		t.Errorf("late: %+v", got)
	}
	if got := r.reply(); got.reset() != InternalError {
		t.Errorf("left without an answer: %+v", got)
	}
	p.open("POST", "/interrupted")
	if got := <-results; !errors.Is(got.fill, socket.ErrInterrupted) {
		t.Errorf("interrupted: %+v", got)
	}
	p.open("POST", "/slow")
	if got := <-results; !errors.Is(got.write, os.ErrDeadlineExceeded) {
		t.Errorf("slow: %+v", got)
	}
	r = p.open("POST", "/cancelled")
	<-cancelled
	r.CancelRead(quic.StreamErrorCode(RequestCancelled))
	if got := <-results; !got.gone || got.write == nil {
		t.Errorf("cancelled: %+v", got)
	}
	r = p.open("POST", "/withdrawn")
	<-cancelled
	r.CancelWrite(quic.StreamErrorCode(RequestCancelled))
	if got := <-results; !got.gone || got.fill == nil || errors.Is(got.fill, io.EOF) {
		t.Errorf("withdrawn: %+v", got)
	}
	r = p.open("POST", "/ended")
	if got := <-results; got.gone || got.write != nil {
		t.Errorf("ended: %+v", got)
	}
	if got := r.reply(); got.err != nil || got.status != "200" {
		t.Errorf("ended: %+v", got)
	}
}

// Interim heads come before the final one, and fields of a connection never.
func TestAnswer(t *testing.T) {
	p := open(t, Options{}, func(s *Stream) {
		var f message.Fields
		f.Add([]byte("Link"), []byte("</a>"))
		_ = s.WriteResponseHead(103, &f, false, 0)
		f.Add([]byte("Connection"), []byte("close"))
		f.Add([]byte("Transfer-Encoding"), []byte("chunked"))
		f.Add([]byte("X-Long"), bytes.Repeat([]byte("v"), 40<<10))
		_ = s.WriteResponseHead(200, &f, false, 0)
		_, _ = s.WriteData(nil, false, 0)
		_, _ = s.WriteData([]byte("body"), true, 0)
	}).dial().greet()
	got := p.get("/")
	want := map[string]string{":status": "200", "link": "</a>", "x-long": strings.Repeat("v", 40<<10)}
	if got.err != nil || !maps.Equal(got.fields, want) || len(got.interim) != 1 || string(got.body) != "body" {
		t.Errorf("%+v", got)
	}
}
