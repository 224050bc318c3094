package http2

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/headgate/headgate/dataplane/socket"
)

// rawFrame is any frame at all.
func rawFrame(kind frameType, flags uint8, stream uint32, payload []byte) []byte {
	return append(appendFrame(nil, len(payload), kind, flags, stream), payload...)
}

// Frames that end the connection, and with which code.
func TestConnectionErrors(t *testing.T) {
	window := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	pad := append([]byte{200}, make([]byte, 10)...)
	for _, tt := range []struct {
		name  string
		frame []byte
		code  string
	}{
		{"DATA on stream 0", rawFrame(frameData, 0, 0, []byte("x")), "PROTOCOL_ERROR"},
		{"DATA on an idle stream", rawFrame(frameData, 0, 9, []byte("x")), "PROTOCOL_ERROR"},
		{"DATA on a stream of ours", rawFrame(frameData, 0, 2, []byte("x")), "PROTOCOL_ERROR"},
		{"DATA with too much padding", rawFrame(frameData, flagPadded, 1, pad), "PROTOCOL_ERROR"},
		{"DATA padded and empty", rawFrame(frameData, flagPadded, 1, nil), "FRAME_SIZE_ERROR"},
		{"frame too large", appendFrame(nil, maxFrameBytes+1, frameData, 0, 1), "FRAME_SIZE_ERROR"},
		{"HEADERS on stream 0", rawFrame(frameHeaders, flagEndHeaders, 0, nil), "PROTOCOL_ERROR"},
		{"HEADERS on an even stream", rawFrame(frameHeaders, flagEndHeaders, 2, nil), "PROTOCOL_ERROR"},
		{"HEADERS with too much padding", rawFrame(frameHeaders, flagEndHeaders|flagPadded, 9, pad), "PROTOCOL_ERROR"},
		{"HEADERS padded and empty", rawFrame(frameHeaders, flagEndHeaders|flagPadded, 9, nil), "FRAME_SIZE_ERROR"},
		{"HEADERS without its priority", rawFrame(frameHeaders, flagEndHeaders|flagPriority, 9, []byte{1}), "FRAME_SIZE_ERROR"},
		{"bad header block", rawFrame(frameHeaders, flagEndHeaders, 9, []byte{0xff, 0xff}), "COMPRESSION_ERROR"},
		{"header block cut short", rawFrame(frameHeaders, flagEndHeaders, 9, []byte{0x40, 5, 'a'}), "COMPRESSION_ERROR"},
		{"table too large", rawFrame(frameHeaders, flagEndHeaders, 9, appendInt(nil, 0x20, 5, 5000)), "COMPRESSION_ERROR"},
		{"header block interrupted", append(rawFrame(frameHeaders, 0, 9, nil), appendPing(nil, 0, 1)...), "PROTOCOL_ERROR"},
		{"CONTINUATION alone", rawFrame(frameContinuation, flagEndHeaders, 9, nil), "PROTOCOL_ERROR"},
		{"CONTINUATION of another", append(rawFrame(frameHeaders, 0, 9, nil), rawFrame(frameContinuation, 0, 11, nil)...), "PROTOCOL_ERROR"},
		{"PRIORITY on stream 0", rawFrame(framePriority, 0, 0, make([]byte, 5)), "PROTOCOL_ERROR"},
		{"RST_STREAM on stream 0", rawFrame(frameReset, 0, 0, make([]byte, 4)), "PROTOCOL_ERROR"},
		{"RST_STREAM on an idle stream", rawFrame(frameReset, 0, 9, make([]byte, 4)), "PROTOCOL_ERROR"},
		{"RST_STREAM of 3 bytes", rawFrame(frameReset, 0, 1, make([]byte, 3)), "FRAME_SIZE_ERROR"},
		{"SETTINGS on a stream", rawFrame(frameSettings, 0, 1, nil), "PROTOCOL_ERROR"},
		{"SETTINGS of 5 bytes", rawFrame(frameSettings, 0, 0, make([]byte, 5)), "FRAME_SIZE_ERROR"},
		{"SETTINGS ack with more", rawFrame(frameSettings, flagAck, 0, make([]byte, 6)), "FRAME_SIZE_ERROR"},
		{"SETTINGS push", appendSettings(nil, setting{settingEnablePush, 2}), "PROTOCOL_ERROR"},
		{"SETTINGS window", appendSettings(nil, setting{settingWindow, 1 << 31}), "FLOW_CONTROL_ERROR"},
		{"SETTINGS small frame", appendSettings(nil, setting{settingFrameSize, 1}), "PROTOCOL_ERROR"},
		{"SETTINGS large frame", appendSettings(nil, setting{settingFrameSize, 1 << 24}), "PROTOCOL_ERROR"},
		{"SETTINGS connect", appendSettings(nil, setting{settingExtendedConnect, 2}), "PROTOCOL_ERROR"},
		{"PUSH_PROMISE", rawFrame(framePushPromise, flagEndHeaders, 1, make([]byte, 8)), "PROTOCOL_ERROR"},
		{"PING of 7 bytes", rawFrame(framePing, 0, 0, make([]byte, 7)), "FRAME_SIZE_ERROR"},
		{"PING on a stream", rawFrame(framePing, 0, 1, make([]byte, 8)), "PROTOCOL_ERROR"},
		{"GOAWAY on a stream", rawFrame(frameGoAway, 0, 1, make([]byte, 8)), "PROTOCOL_ERROR"},
		{"GOAWAY of 7 bytes", rawFrame(frameGoAway, 0, 0, make([]byte, 7)), "FRAME_SIZE_ERROR"},
		{"WINDOW_UPDATE of 3 bytes", rawFrame(frameWindowUpdate, 0, 0, make([]byte, 3)), "FRAME_SIZE_ERROR"},
		{"WINDOW_UPDATE of 0", rawFrame(frameWindowUpdate, 0, 0, window(0)), "PROTOCOL_ERROR"},
		{"WINDOW_UPDATE too large", rawFrame(frameWindowUpdate, 0, 0, window(maxWindow)), "FLOW_CONTROL_ERROR"},
		{"WINDOW_UPDATE on an idle stream", rawFrame(frameWindowUpdate, 0, 9, window(1)), "PROTOCOL_ERROR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var counters Counters
			c := clientPeer(t, listen(t, Options{Counters: &counters}, echo))
			c.headers(1, true, get1()...)
			c.expect("DATA 1 0 end")
			c.raw(tt.frame)
			if got := c.next(); got != "GOAWAY 1 "+tt.code && got != "GOAWAY 9 "+tt.code {
				t.Errorf("got %q, want %s", got, tt.code)
			}
			if got := c.next(); got != "closed" {
				t.Errorf("then %q", got)
			}
			if counters.Broken.Load() != 1 {
				t.Error("not counted")
			}
		})
	}
}

// flood sends a frame again and again until the connection is ended for it, or n
// were sent.
func flood(t *testing.T, o Options, n int, frame func(i int) []byte) string {
	t.Helper()
	c := clientPeer(t, listen(t, o, func(s *Stream) {
		if strings.HasPrefix(string(s.Request().Path), "/slow") {
			s.MayWait()
			lost := make(chan struct{})
			s.OnReset(func() { close(lost) })
			<-lost
			return
		}
		echo(s)
	}))
	go func() {
		var b []byte
		for i := range n {
			if b = append(b, frame(i)...); len(b) > 8<<10 || i == n-1 {
				if _, err := c.net.Write(b); err != nil {
					return
				}
				b = b[:0]
			}
		}
		_, _ = c.net.Write(appendPing(nil, 0, 0xfeed))
	}()
	for {
		f, err := c.fr.ReadFrame()
		if err != nil {
			return err.Error()
		}
		switch f := f.(type) {
		case *xhttp2.GoAwayFrame:
			return f.ErrCode.String()
		case *xhttp2.PingFrame:
			if f.IsAck() && binary.BigEndian.Uint64(f.Data[:]) == 0xfeed {
				return "served"
			}
		}
	}
}

func TestFloods(t *testing.T) {
	get := newPeerBlock(get1()...)
	slow := newPeerBlock(":method", "GET", ":scheme", "http", ":path", "/slow", ":authority", "test")
	post := newPeerBlock(":method", "POST", ":scheme", "http", ":path", "/echo", ":authority", "test")
	open := rawFrame(frameHeaders, flagEndHeaders, 1, post)
	id := func(i int) uint32 { return uint32(2*i + 1) }
	once := func(first []byte, then []byte) func(int) []byte {
		return func(i int) []byte {
			if i == 0 {
				return first
			}
			return then
		}
	}
	always := func(b []byte) func(int) []byte { return once(b, b) }
	const calm, served = "ENHANCE_YOUR_CALM", "served"
	for _, tt := range []struct {
		name  string
		n     int
		frame func(int) []byte
		want  string
	}{
		{"PING", 100_000, always(appendPing(nil, 0, 7)), calm},
		{"some PING", 1000, always(appendPing(nil, 0, 7)), served},
		{"SETTINGS", 20_000, always(appendSettings(nil, setting{settingWindow, 1})), calm},
		{"SETTINGS acknowledgements", 20_000, always(rawFrame(frameSettings, flagAck, 0, nil)), calm},
		{"PRIORITY", 100_000, always(rawFrame(framePriority, 0, 9, make([]byte, 5))), calm},
		{"unknown frames", 100_000, always(rawFrame(77, 0, 0, nil)), calm},
		{"WINDOW_UPDATE", 100_000, always(appendWindowUpdate(nil, 0, 1)), calm},
		{"empty DATA", 20_000, once(open, rawFrame(frameData, 0, 1, nil)), calm},
		{"padding alone", 20_000, once(open, rawFrame(frameData, flagPadded, 1, []byte{0})), calm},
		{"small DATA", 3000, once(open, rawFrame(frameData, 0, 1, []byte("x"))), served},
		{"CONTINUATION", 100_000, once(rawFrame(frameHeaders, 0, 1, post), rawFrame(frameContinuation, 0, 1, nil)), calm},
		{"CONTINUATION with fields", 100_000, once(rawFrame(frameHeaders, 0, 1, post), rawFrame(frameContinuation, 0, 1, newPeerBlock("x-a", strings.Repeat("b", 4000)))), calm},
		{"rapid reset", 5000, func(i int) []byte {
			return appendReset(rawFrame(frameHeaders, flagEndHeaders|flagEndStream, id(i), slow), id(i), Cancel)
		}, calm},
		{"some resets", 200, func(i int) []byte {
			return appendReset(rawFrame(frameHeaders, flagEndHeaders|flagEndStream, id(i), slow), id(i), Cancel)
		}, served},
		{"streams over the limit", 5000, func(i int) []byte {
			return rawFrame(frameHeaders, flagEndHeaders|flagEndStream, id(i), slow)
		}, calm},
		{"streams that we are made to reset", 5000, func(i int) []byte {
			return appendWindowUpdate(rawFrame(frameHeaders, flagEndHeaders|flagEndStream, id(i), slow), id(i), 0)
		}, calm},
		{"malformed requests", 5000, func(i int) []byte {
			return rawFrame(frameHeaders, flagEndHeaders|flagEndStream, id(i), nil)
		}, calm},
		{"requests", 3000, func(i int) []byte {
			return rawFrame(frameHeaders, flagEndHeaders|flagEndStream, id(i), get)
		}, served},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var counters Counters
			// With many streams allowed, those of a client that never waits for
			// an answer fit in.
			o := Options{Counters: &counters}
			if tt.name == "requests" {
				o.MaxConcurrentStreams = 3000
			}
			got := flood(t, o, tt.n, tt.frame)
			// Who still sends when we close may see a reset before our GOAWAY.
			if got != tt.want && (tt.want == served || got == served) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if tt.want == calm && counters.Abused.Load() != 1 {
				t.Errorf("got %q, and nothing was counted", got)
			}
		})
	}
}

// newPeerBlock is a header block whose fields are in no table.
func newPeerBlock(pairs ...string) []byte {
	var b []byte
	for i := 0; i < len(pairs); i += 2 {
		b = appendPlain(appendPlain(append(b, 0), []byte(pairs[i])), []byte(pairs[i+1]))
	}
	return b
}

// A peer that takes no bytes is ended.
func TestPeerThatDoesNotRead(t *testing.T) {
	served := make(chan error, 1)
	address := listenWith(t, Options{WriteTimeout: 50 * time.Millisecond}, func(s *Stream) {
		_ = s.WriteResponseHead(200, nil, false, 0)
		data := make([]byte, 1<<20)
		for {
			if _, err := s.WriteData(data, false, 0); err != nil {
				return
			}
		}
	}, func(err error) { served <- err })
	c := clientPeer(t, address, xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: maxWindow})
	c.ok(c.fr.WriteWindowUpdate(0, 1<<30))
	c.headers(1, true, get1()...)
	if err := <-served; err == nil || !strings.Contains(err.Error(), "the peer takes no bytes") {
		t.Errorf("ended with %v", err)
	}
}

// A peer with a window of one byte gets its byte, and the writer its deadline.
func TestWindowOfOne(t *testing.T) {
	ended := make(chan error, 1)
	c := clientPeer(t, listen(t, Options{}, func(s *Stream) {
		_ = s.WriteResponseHead(200, nil, false, 0)
		if n, err := s.WriteData([]byte("abc"), true, socket.Now()); n != 1 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes, %v", n, err)
		}
		_, err := s.WriteData([]byte("bc"), true, 0)
		ended <- err
	}), xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 1})
	c.headers(1, true, get1()...)
	for _, want := range []string{"HEADERS 1 :status=200", "DATA 1 1"} {
		if got := c.next(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	c.ok(c.fr.WriteRSTStream(1, xhttp2.ErrCodeCancel))
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "CANCEL") {
		t.Errorf("writer ended with %v", err)
	}
}
