package http2

import (
	"testing"

	"github.com/headgate/headgate/dataplane/message"
)

// A request in steady state allocates nothing on either side; on a slow machine
// the runtime may, for a goroutine or a pool that the collector emptied, so the
// claim is one for both.
func TestRequestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	fields := &message.Fields{}
	fields.Add([]byte("content-type"), []byte("text/plain"))
	client := dial(t, listen(t, Options{}, func(s *Stream) {
		for s.Fill(0, 0) == nil {
			s.Consume(len(s.Buffered()))
		}
		_ = s.WriteResponseHead(200, fields, false, 0)
		_, _ = s.WriteData([]byte("hello"), false, 0)
		_ = s.WriteTrailers(fields, 0)
	}), Options{})
	for range 200 {
		get(t, client)
	}
	if n := testing.AllocsPerRun(2000, func() { get(t, client) }); n > 1 {
		t.Errorf("%v allocations a request, both sides together", n)
	}
}
