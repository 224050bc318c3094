package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
)

// heldMost is what may lie between a sender and a receiver that takes nothing:
// the buffers of two loopback connections, and the data plane's.
const heldMost = 24 << 20

// TestStreamSlowReader has a client give no window: the backend is held up, other
// streams go on, and nothing is lost once the window is there.
func TestStreamSlowReader(t *testing.T) {
	b := newBackend(t)
	f := start(t, single(b.address())).frames()
	id := f.open(true, "GET", "/large")
	up := b.accept()
	up.head()
	const size = 2 * heldMost
	var written atomic.Int64
	sent := make(chan error, 1)
	piece := noise(64 << 10)
	go func() {
		err := up.write(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size))
		for n := 0; err == nil && n < size; n += len(piece) {
			err = up.write(piece)
			written.Add(int64(len(piece)))
		}
		sent <- err
	}()
	// The window of the connection is opened, that of the stream is not.
	f.must(f.WriteWindowUpdate(0, 1<<30))
	got := &reply{}
	for len(got.body) < 65535 {
		switch frame := f.next().(type) {
		case *http2.DataFrame:
			got.body = append(got.body, frame.Data()...)
		case *http2.MetaHeadersFrame:
			got.status = frame.PseudoValue("status")
		}
	}
	for range 20 {
		f.serves(b)
	}
	if n := written.Load(); n > heldMost {
		t.Errorf("%d bytes went through without a reader", n)
	}
	f.must(f.WriteWindowUpdate(id, 1<<30))
	for !got.clean {
		f.take(got, f.next())
	}
	if want := bytes.Repeat(piece, size/len(piece)); !bytes.Equal(got.body, want) {
		t.Errorf("%d bytes, not the same", len(got.body))
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestStreamSlowUpstream has a backend take nothing: the client gets no more
// credit than a bound, and other streams go on.
func TestStreamSlowUpstream(t *testing.T) {
	b := newBackend(t)
	f := start(t, single(b.address())).frames()
	id := f.open(false, "POST", "/large")
	up := b.accept()
	up.head()
	window := map[uint32]int{0: 65535, id: 65535}
	sent := 0
	piece := noise(16 << 10)
	send := func() {
		for n := len(piece); n > 0 && min(window[0], window[id]) > 0; {
			n = min(len(piece)-sent%len(piece), window[0], window[id])
			at := sent % len(piece)
			f.must(f.WriteData(id, false, piece[at:at+n]))
			sent, window[0], window[id] = sent+n, window[0]-n, window[id]-n
		}
	}
	credit := func() { // reads until what was sent has been read, and nothing more is given
		for before := -1; before != sent; {
			before = sent
			send()
			f.must(f.WritePing(false, [8]byte{2}))
			for acked := false; !acked; {
				switch frame := f.next().(type) {
				case *http2.WindowUpdateFrame:
					window[frame.StreamID] += int(frame.Increment)
				case *http2.PingFrame:
					acked = true
				}
			}
			send()
		}
	}
	credit()
	for range 20 {
		credit()
		if sent > heldMost {
			t.Fatalf("%d bytes were taken without a reader", sent)
		}
	}
	got := make(chan int, 1)
	go func() {
		n := 0
		for {
			head, err := up.read(1)
			if err != nil || head == "" {
				break
			}
			size := up.chunkSize(head)
			body, _ := up.read(size + 2)
			if n += len(body) - 2; size == 0 {
				break
			}
		}
		up.send(emptyAnswer)
		got <- n
	}()
	f.must(f.WriteData(id, true, nil))
	if r := f.await(id); r.status != "200" {
		t.Errorf("%+v", r)
	}
	if n := <-got; n != sent {
		t.Errorf("%d bytes reached the backend, of %d", n, sent)
	}
}

// chunkSize reads the rest of a chunk's size line.
func (p *peer) chunkSize(first string) int {
	line := first
	for len(line) < 2 || line[len(line)-2:] != "\r\n" {
		c, err := p.read(1)
		if err != nil {
			p.t.Errorf("%s: %v", p.name, err)
			return 0
		}
		line += c
	}
	var n int
	if _, err := fmt.Sscanf(line, "%x\r\n", &n); err != nil {
		p.t.Errorf("%s: %q: %v", p.name, line, err)
	}
	return n
}

// TestStreamLimit opens as many streams as are allowed at once: one more is
// refused, and can be tried again, and the others are not touched.
func TestStreamLimit(t *testing.T) {
	const limit = 128
	b := newBackend(t)
	f := start(t, single(b.address())).frames()
	ups := map[uint32]*peer{}
	for range limit {
		id := f.open(true, "GET", fmt.Sprint("/", f.last))
		up := b.accept()
		up.head()
		ups[id] = up
	}
	if code := f.resets(f.open(true, "GET", "/over")); code != http2.ErrCodeRefusedStream {
		t.Errorf("refused with %v", code)
	}
	b.untouched()
	for id, up := range ups {
		up.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\n%4d", id))
		if r := f.await(id); r.status != "200" || string(r.body) != fmt.Sprintf("%4d", id) {
			t.Errorf("stream %d: %+v", id, r)
		}
	}
	f.serves(b)
}

// TestStreamDrain drains with a stream under way: the client is told to go, the
// stream ends well, and the connection after it.
func TestStreamDrain(t *testing.T) {
	b := newBackend(t)
	g := start(t, single(b.address()))
	idle, f := g.frames(), g.frames()
	idle.pings()
	id := f.open(true, "GET", "/")
	up := b.accept()
	up.head()
	cut := make(chan int)
	go func() { cut <- g.drain() }()
	if why := idle.ended(); why != http2.ErrCodeNo {
		t.Errorf("the idle one is told to go with %v", why)
	}
	for told := false; !told; {
		if away, ok := f.next().(*http2.GoAwayFrame); ok {
			if away.ErrCode != http2.ErrCodeNo {
				t.Errorf("told to go with %v", away.ErrCode)
			}
			told = true
		}
	}
	// This one crosses the farewell; it is served too.
	late := f.open(true, "GET", "/late")
	second := b.accept()
	second.head()
	second.send(plainAnswer)
	if r := f.await(late); r.status != "200" || string(r.body) != "ok" {
		t.Errorf("%+v", r)
	}
	up.send(plainAnswer)
	if r := f.await(id); r.status != "200" || string(r.body) != "ok" {
		t.Errorf("%+v", r)
	}
	f.ended()
	if n := <-cut; n != 0 {
		t.Errorf("%d connections were cut", n)
	}
}

// TestStreamCutByDrain ends a drain that takes too long in the middle of streams.
func TestStreamCutByDrain(t *testing.T) {
	b := newBackend(t)
	g := start(t, single(b.address()))
	f := g.frames()
	f.open(true, "GET", "/awaited")
	awaited := b.accept()
	awaited.head()
	id := f.open(true, "GET", "/begun")
	begun := b.accept()
	begun.head()
	begun.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
	f.head(id)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	g.drained.Do(func() { g.cut = g.listener.Drain(over) })
	if g.cut != 1 {
		t.Errorf("%d connections were cut, want 1", g.cut)
	}
	awaited.gone()
	begun.gone()
	f.ended()
}

// TestStreamApply makes another snapshot live while a stream is under way: that
// one ends as it began, the next goes by the new snapshot.
func TestStreamApply(t *testing.T) {
	b, other := newBackend(t), newBackend(t)
	g := start(t, single(b.address()))
	f := g.frames()
	down := f.open(true, "GET", "/down")
	first := b.accept()
	first.head()
	first.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ")
	f.head(down)
	upload := f.open(false, "POST", "/up", "content-length", "10")
	second := b.accept()
	second.head()
	g.apply(single(other.address()))
	f.serves(other)
	first.send("whole")
	if r := f.await(down); !r.clean {
		t.Errorf("%+v", r)
	}
	f.must(f.WriteData(upload, true, []byte("0123456789")))
	second.sees("0123456789")
	second.send(plainAnswer)
	if r := f.await(upload); r.status != "200" || string(r.body) != "ok" {
		t.Errorf("%+v", r)
	}
}
