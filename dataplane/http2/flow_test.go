package http2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dataplane/socket"
)

// delayed is a connection on which everything arrives some time after it was
// written, however much is under way.
type delayed struct {
	net.Conn
	delay time.Duration

	mu     sync.Mutex
	ready  *sync.Cond
	queue  []parcel
	closed bool
	done   chan struct{}
}

type parcel struct {
	due  time.Time
	data []byte
}

func delay(c net.Conn, d time.Duration) *delayed {
	w := &delayed{Conn: c, delay: d, done: make(chan struct{})}
	w.ready = sync.NewCond(&w.mu)
	go w.deliver()
	return w
}

func (w *delayed) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, net.ErrClosed
	}
	w.queue = append(w.queue, parcel{time.Now().Add(w.delay), bytes.Clone(p)})
	w.ready.Signal()
	return len(p), nil
}

func (w *delayed) SetWriteDeadline(time.Time) error { return nil }

func (w *delayed) deliver() {
	defer close(w.done)
	for {
		w.mu.Lock()
		for len(w.queue) == 0 && !w.closed {
			w.ready.Wait()
		}
		if len(w.queue) == 0 {
			w.mu.Unlock()
			_ = w.Conn.Close()
			return
		}
		next := w.queue[0]
		w.queue = w.queue[1:]
		w.mu.Unlock()
		time.Sleep(time.Until(next.due))
		_, _ = w.Conn.Write(next.data)
	}
}

func (w *delayed) Close() error {
	w.mu.Lock()
	w.closed = true
	w.ready.Signal()
	w.mu.Unlock()
	return w.Conn.Close()
}

// A stream's window grows to what a path of 30 ms round trip needs, in either
// direction, so that 10 MB take about as many round trips as the window doubles;
// and it is given back when the stream ends.
func TestWindowFollowsThePath(t *testing.T) {
	const size = 10 << 20
	for _, upload := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			window := 0
			s := NewServer(socket.New(delay(here, 15*time.Millisecond)), Options{}, func(s *Stream) {
				if upload {
					if n := drain(t, s); n != size {
						t.Errorf("%d bytes came", n)
					}
					window = s.window
					_ = s.WriteResponseHead(204, nil, true, 0)
					return
				}
				_ = s.WriteResponseHead(200, nil, false, 0)
				_, _ = s.WriteData(make([]byte, size), true, 0)
			})
			c := NewClient(socket.New(delay(there, 15*time.Millisecond)), Options{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = s.Serve()
			}()
			c.Start()
			began := time.Now()
			st, err := c.NewStream()
			if err != nil {
				t.Fatal(err)
			}
			if err := st.WriteRequestHead(&benchHead, !upload, 0); err != nil {
				t.Fatal(err)
			}
			if upload {
				if _, err := st.WriteData(make([]byte, size), true, 0); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := st.ReadHead(0); err != nil {
				t.Fatal(err)
			}
			if n := drain(t, st); !upload && n != size {
				t.Errorf("%d bytes came", n)
			}
			if !upload {
				window = st.window
			}
			// Made time: with the first window it would be 160 round trips.
			if trips := time.Since(began) / (30 * time.Millisecond); window < 2<<20 || trips > 20 {
				t.Errorf("upload %v: window %d, %d round trips", upload, window, trips)
			}
			st.Finish()
			c.Shutdown()
			<-c.Done()
			<-ended
			if s.conn.grown != 0 || c.conn.grown != 0 {
				t.Errorf("%d and %d bytes of windows are still out", s.conn.grown, c.conn.grown)
			}
		})
	}
}

func drain(t *testing.T, s *Stream) (n int) {
	t.Helper()
	for {
		n += len(s.Buffered())
		s.Consume(len(s.Buffered()))
		if err := s.Fill(0, 0); errors.Is(err, io.EOF) {
			return n
		} else if err != nil {
			t.Error(err)
			return n
		}
	}
}

// A reader that does not read holds its peer back at the first window, and no
// other stream.
func TestSlowReaderHoldsOneStream(t *testing.T) {
	blocked := make(chan *Stream, 1)
	release := make(chan struct{})
	c := clientPeer(t, listen(t, Options{}, func(s *Stream) {
		if string(s.Request().Path) == "/slow" {
			s.MayWait()
			blocked <- s
			<-release
			_ = s.WriteResponseHead(204, nil, true, 0)
			return
		}
		echo(s)
	}))
	c.headers(1, false, ":method", "POST", ":scheme", "http", ":path", "/slow", ":authority", "a")
	s := <-blocked
	for range 4 {
		c.ok(c.fr.WriteData(1, false, make([]byte, 16<<10)))
	}
	for id := uint32(3); id < 50; id += 2 {
		c.headers(id, false, get1()...)
		c.ok(c.fr.WriteData(id, true, make([]byte, 1000)))
		c.expect("DATA")
	}
	s.c.mu.Lock()
	held, window := 0, s.recvWindow
	for _, b := range s.queue {
		held += len(b)
	}
	s.c.mu.Unlock()
	if held != 64<<10 || window != 0 {
		t.Errorf("%d bytes held, %d bytes of credit", held, window)
	}
	close(release)
	c.expect("HEADERS 1")
}

// Whatever the pieces in which a body is sent and read and the windows it goes
// through, it arrives whole and in order, and no side ever has more credit than
// its window.
func TestBodiesThroughAnyWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := Options{
			StreamWindow:    rapid.IntRange(65535, 200_000).Draw(rt, "stream window"),
			MaxStreamWindow: 1 << 20,
			ConnWindow:      rapid.IntRange(1<<17, 1<<20).Draw(rt, "connection window"),
		}
		pieces := rapid.SliceOfN(rapid.IntRange(1, 100_000), 1, 6).Draw(rt, "pieces")
		bite := rapid.IntRange(100, 100_000).Draw(rt, "bite")
		here, there := net.Pipe()
		s := NewServer(socket.New(here), o, func(s *Stream) {
			_ = s.WriteResponseHead(200, nil, false, 0)
			for {
				b := s.Buffered()
				b = b[:min(len(b), bite)]
				if _, err := s.WriteData(b, false, 0); err != nil {
					return
				}
				s.Consume(len(b))
				if len(s.Buffered()) > 0 {
					continue
				}
				if s.Fill(0, 0) != nil {
					_ = s.WriteTrailers(nil, 0)
					return
				}
			}
		})
		c := NewClient(socket.New(there), o)
		var running sync.WaitGroup
		running.Go(func() { _ = s.Serve() })
		c.Start()
		st, err := c.NewStream()
		if err != nil {
			rt.Fatal(err)
		}
		if err := st.WriteRequestHead(&benchHead, false, 0); err != nil {
			rt.Fatal(err)
		}
		var sent []byte
		for i, n := range pieces {
			sent = append(sent, bytes.Repeat([]byte{byte('a' + i)}, n)...)
		}
		running.Go(func() {
			rest := sent
			for i, n := range pieces {
				if _, err := st.WriteData(rest[:n], i == len(pieces)-1, 0); err != nil {
					return
				}
				rest = rest[n:]
			}
		})
		got, err := readAnswer(st)
		if err != nil || !bytes.Equal(got.body, sent) {
			rt.Fatalf("%v came back of %d, %v", got, len(sent), err)
		}
		st.c.mu.Lock()
		if st.recvWindow > int64(st.window) || st.window > o.MaxStreamWindow {
			rt.Errorf("credit of %d with a window of %d", st.recvWindow, st.window)
		}
		st.c.mu.Unlock()
		st.Finish()
		c.Close()
		s.Close()
		<-c.Done()
		running.Wait()
	})
}

// Windows that SETTINGS change under open streams, below zero among it.
func TestSettingsMoveWindows(t *testing.T) {
	c := clientPeer(t, listen(t, Options{}, func(s *Stream) {
		_ = s.WriteResponseHead(200, nil, false, 0)
		_, _ = s.WriteData(make([]byte, 100), true, 0)
	}), xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 10})
	c.headers(1, true, get1()...)
	c.expect("DATA 1 10")
	set := func(n uint32) {
		c.ok(c.fr.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: n}))
	}
	set(0)                             // -10
	set(12)                            // 2
	c.expect("DATA 1 2")               // 0
	set(2)                             // -10
	c.ok(c.fr.WriteWindowUpdate(1, 9)) // -1
	c.ok(c.fr.WriteWindowUpdate(1, 5)) // 4
	c.expect("DATA 1 4")
	set(1000)
	c.expect("DATA 1 84 end")
}
