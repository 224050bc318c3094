package http3

import (
	"bytes"
	"fmt"
	"testing"
)

// parsed is what comes of the bytes of a request stream.
type parsed struct {
	payload  string
	ended    bool
	trailers string
	fault    string
}

// parseIn parses bytes that come in pieces of a size.
func parseIn(data []byte, size int) (out parsed) {
	o := Options{MaxHeaderBytes: 4096}.resolve()
	s := &Stream{server: &Server{o: o, rules: o.sections()}}
	defer func() {
		s.head.Release()
		s.trailer.Release()
		s.in.release()
	}()
	var payload []byte
	for !s.ended {
		if s.in.empty(); len(data) == 0 {
			s.in.eof = true
		} else {
			n := copy(s.in.room(0), data[:min(size, len(data))])
			s.in.e += n
			data = data[n:]
		}
		err := s.parse()
		payload = append(payload, s.Buffered()...)
		s.Consume(len(s.Buffered()))
		if err != nil {
			out.fault = err.Error()
			break
		}
	}
	out.payload, out.ended = string(payload), s.ended
	for _, f := range s.Trailers().All() {
		out.trailers += fmt.Sprintf("%s: %s\n", f.Name, f.Value)
	}
	return out
}

// FuzzFrames holds that it does not matter in which pieces a request comes.
func FuzzFrames(f *testing.F) {
	for _, seed := range [][][]byte{
		{with()},
		{with("content-length", "4"), dataOf("four")},
		{with(), dataOf("a"), dataOf(""), frameOf(0x21, []byte("unknown")), dataOf("b"), only("x-sum", "1")},
		{with(), frameOf(0x40, bytes.Repeat([]byte("x"), 300)), dataOf("a")},
		{dataOf("early"), with()},
		{with(), only("x-sum", "1"), dataOf("late")},
		{with("x-a", string(bytes.Repeat([]byte("v"), 5000))), dataOf("behind")},
		{with()[:5]},
		{frameOf(frameHeaders, []byte{2, 0, 0x80})},
		{with(), frameOf(frameSettings, nil)},
	} {
		f.Add(bytes.Join(seed, nil), uint16(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, size uint16) {
		if len(data) > 64<<10 {
			t.Skip("longer than is needed")
		}
		whole := parseIn(data, len(data))
		if pieces := parseIn(data, int(size%1000)+1); pieces != whole {
			t.Errorf("in pieces %+v, as a whole %+v", pieces, whole)
		}
	})
}

// FuzzSettings holds that no bytes of SETTINGS panic.
func FuzzSettings(f *testing.F) {
	f.Add([]byte{6, 10, 0x21, 1})
	f.Add([]byte{6, 1, 6, 1})
	f.Add([]byte{3, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := checkSettings(data); err != nil && err.Error() == "" {
			t.Error("a fault without words")
		}
	})
}
