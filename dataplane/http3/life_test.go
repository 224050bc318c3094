package http3

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"
	"pgregory.net/rapid"
)

// goAways reads the control stream of a server and tells what its GOAWAYs name.
func (p *peer) goAways() <-chan uint64 {
	p.t.Helper()
	ids := make(chan uint64, 10)
	s, err := p.conn.AcceptUniStream(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	in := quicvarint.NewReader(s)
	go func() {
		defer close(ids)
		_, _ = quicvarint.Read(in) // the type
		for {
			kind, err := quicvarint.Read(in)
			if err != nil {
				return
			}
			length, _ := quicvarint.Read(in)
			if kind == frameGoAway {
				id, _ := quicvarint.Read(in)
				ids <- id
				continue
			}
			_, _ = io.CopyN(io.Discard, in, int64(length))
		}
	}()
	return ids
}

// A connection that drains takes what is on its way, answers what it has, and ends.
func TestShutdown(t *testing.T) {
	began, leave := make(chan struct{}), make(chan struct{})
	h := open(t, Options{}, func(s *Stream) {
		began <- struct{}{}
		<-leave
		echo(s)
	})
	p := h.dial().greet()
	ids := p.goAways()
	first := p.open("GET", "/")
	first.end()
	<-began
	server := <-h.servers
	server.Shutdown()
	server.Shutdown()
	if id := <-ids; id != maxStreamID {
		t.Errorf("the first GOAWAY names %d", id)
	}
	second := p.open("GET", "/") // on its way
	second.end()
	<-began
	if id := <-ids; id != 8 {
		t.Errorf("the last GOAWAY names %d", id)
	}
	third := p.open("GET", "/")
	third.end()
	if got := third.reply(); got.reset() != RequestRejected {
		t.Errorf("after the last GOAWAY: %+v", got)
	}
	close(leave)
	for _, r := range []*request{first, second} {
		if got := r.reply(); got.status != "200" || got.err != nil {
			t.Errorf("%+v", got)
		}
	}
	if code := p.code(); code != NoError {
		t.Errorf("closed with %v", code)
	}
	if err := h.fault(); err != nil {
		t.Error(err)
	}
}

// A connection without a request ends after a while.
func TestIdle(t *testing.T) {
	h := open(t, Options{IdleTimeout: time.Millisecond}, echo)
	p := h.dial().greet()
	if code := p.code(); code != NoError {
		t.Errorf("closed with %v", code)
	}
	if err := h.fault(); err != nil {
		t.Error(err)
	}
}

// What is cut is cut for those who use it.
func TestClose(t *testing.T) {
	began := make(chan struct{})
	h := open(t, Options{}, func(s *Stream) {
		close(began)
		if err := s.Fill(0, 0); err == nil || errors.Is(err, io.EOF) || !s.Gone() {
			t.Errorf("Fill says %v, gone: %v", err, s.Gone())
		}
	})
	p := h.dial().greet()
	p.open("POST", "/")
	<-began
	(<-h.servers).Close()
	p.code()
	if err := h.fault(); err != nil {
		t.Error(err)
	}
}

// A client that goes without a word is not waited for.
func TestClientCloses(t *testing.T) {
	h := open(t, Options{}, echo)
	p := h.dial().greet()
	r := p.open("POST", "/")
	<-h.servers
	_ = p.conn.CloseWithError(quic.ApplicationErrorCode(RequestCancelled), "enough")
	if err := h.fault(); err == nil {
		t.Error("Serve says nothing of it")
	}
	_ = r.Close()
}

// A head that does not come is answered for.
func TestHeaderTimeout(t *testing.T) {
	h := open(t, Options{HeaderTimeout: 100 * time.Millisecond}, echo)
	p := h.dial().greet()
	r := p.begin()
	r.send(with()[:5])
	if got := r.reply(); got.status != "408" || got.err != nil {
		t.Errorf("%+v", got)
	}
}

// No more requests run at once than may, even of those that were given up.
func TestStreamLimit(t *testing.T) {
	began, leave := make(chan struct{}, 10), make(chan struct{})
	h := open(t, Options{MaxConcurrentStreams: 3}, func(s *Stream) {
		began <- struct{}{}
		<-leave
	})
	p := h.dial().greet()
	for range 3 {
		r := p.open("POST", "/")
		<-began
		r.CancelRead(quic.StreamErrorCode(RequestCancelled))
		r.CancelWrite(quic.StreamErrorCode(RequestCancelled))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s, err := p.conn.OpenStreamSync(ctx); err == nil {
		t.Errorf("a fourth stream %d while three handlers run", s.StreamID())
	}
	close(leave)
	p.open("POST", "/") // there is room again
	<-began
}

// A peer that makes requests only to give them up is turned away.
func TestRapidReset(t *testing.T) {
	h := open(t, Options{MaxConcurrentStreams: 10}, func(s *Stream) {
		gone := make(chan struct{})
		s.OnReset(func() { close(gone) })
		<-gone
		s.OnReset(nil)
	})
	p := h.dial().greet()
	for p.conn.Context().Err() == nil {
		s, err := p.conn.OpenStreamSync(p.conn.Context())
		if err != nil {
			break
		}
		_, _ = s.Write(with())
		s.CancelRead(quic.StreamErrorCode(RequestCancelled))
		s.CancelWrite(quic.StreamErrorCode(RequestCancelled))
	}
	if code := p.code(); code != ExcessiveLoad {
		t.Errorf("closed with %v", code)
	}
}

// Streams that are no requests are not opened for ever.
func TestManyOthers(t *testing.T) {
	h := open(t, Options{}, echo)
	p := h.dial().greet()
	for p.conn.Context().Err() == nil {
		s, err := p.conn.OpenUniStreamSync(p.conn.Context())
		if err != nil {
			break
		}
		_, _ = s.Write([]byte{0x21})
		_ = s.Close()
	}
	if code := p.code(); code != ExcessiveLoad {
		t.Errorf("closed with %v", code)
	}
}

// A peer that gives no credit for our control stream is none.
func TestNoRoomForControl(t *testing.T) {
	h := open(t, Options{}, echo)
	p := h.dial(func(c *quic.Config) { c.MaxIncomingUniStreams = -1 })
	if code := p.code(); code != GeneralProtocolError {
		t.Errorf("closed with %v", code)
	}
}

// Requests that are given up are forgiven with time, and by those that are not.
func TestResets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		full := rapid.IntRange(1, 50).Draw(t, "full")
		now := int64(1)
		r := newResets(full, now)
		for range full {
			if !r.ended(true, now) {
				t.Fatal("turned away within the bound")
			}
		}
		if r.ended(true, now) {
			t.Fatal("not turned away")
		}
		now += int64(time.Second)
		for range min(full, forgivenPerSecond) - 1 {
			if !r.ended(true, now) {
				t.Fatal("turned away though a second has passed")
			}
		}
		for range 3 {
			r.ended(false, now)
			if !r.ended(true, now) {
				t.Fatal("turned away though one ended well")
			}
		}
	})
}
