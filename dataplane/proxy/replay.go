package proxy

import (
	"errors"
	"io"
	"os"
	"sync"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// replayBytes bounds what is kept of a body that streams, so that it can be sent
// again. Of one that is longer nothing is kept.
const replayBytes = 64 << 10

// A replay is what a body that streams has given so far. Who reads the body puts
// it there: the exchange, or its upload.
type replay struct {
	mu sync.Mutex
	// guarded by mu; the bytes of data stay as they are until reset
	data []byte
	lost bool // there was more than is kept, or nothing will be sent again
}

// put keeps a piece of the body.
func (r *replay) put(data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.lost:
	case len(r.data)+len(data) > replayBytes:
		r.forget()
	default:
		r.data = append(r.data, data...)
	}
}

// drop keeps nothing any more.
func (r *replay) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
}

// forget lets go of what takes much room. mu is held.
func (r *replay) forget() {
	r.lost = true
	if cap(r.data) > socket.SmallBuffer {
		r.data = nil
	}
}

// kept is what the body has given so far; false: that is not all there.
func (r *replay) kept() ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data, !r.lost
}

// reset is for the next body. Nobody puts anything any more.
func (r *replay) reset() {
	r.forget()
	r.data, r.lost = r.data[:0], false
}

// replayable reports whether all that was sent of the body can be sent again. What
// an upload still reads may be more than is kept.
func (x *exchange) replayable() bool {
	if !x.body.begun {
		return true
	}
	_, there := x.replay.kept()
	return there && (x.upload == nil || x.upload.whole.Load())
}

// repeat sends what attempts before this one were given of the body.
func (u *upload) repeat() error {
	data, _ := u.x.replay.kept()
	for len(data) > 0 && !u.stop.Load() {
		n := min(len(data), socket.SmallBuffer-chunkOverhead)
		u.out = appendPiece(u.out, u.x.sentKind(), data[:n])
		data = data[n:]
		if err := u.flush(); err != nil {
			return err
		}
	}
	return nil
}

// gather waits for the rest of a body that streams, if the route hedges: what is
// sent twice has to be all there. It waits no longer than a first attempt would be
// waited for, and takes no more than is kept; then the body streams on, and the
// request is sent once.
func (x *exchange) gather() *failure {
	hedge := x.route.route.Forward.Hedge
	if hedge == nil || !x.body.streams || x.protocol != nil || x.req.Continue || !x.req.Idempotent() || x.req.Body.Length > replayBytes {
		return nil
	}
	x.stepAside()
	for limit := x.now + int64(hedge.After); !x.bodyDecoder.Done(); {
		room, fail := x.gatherMore()
		if fail != nil || !room {
			return fail
		}
		if x.bodyDecoder.Done() {
			break
		}
		switch err := x.source().Fill(0, limit); {
		case err == nil, errors.Is(err, io.EOF) && x.bodyDecoder.EOF() == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		default:
			return clientGone()
		}
	}
	x.takeGathered()
	return nil
}

// gatherMore keeps what has come of the body, while there is room for it.
func (x *exchange) gatherMore() (room bool, fail *failure) {
	for src := x.source(); len(src.Buffered()) > 0 && !x.bodyDecoder.Done(); {
		kept, _ := x.replay.kept()
		if len(kept) == replayBytes {
			return false, nil
		}
		buf := src.Buffered()
		data, n, err := x.bodyDecoder.Next(buf[:min(replayBytes-len(kept), len(buf))])
		if err != nil {
			return false, badBody(err)
		}
		x.takePiece(data)
		src.Consume(n)
		x.body.begun = true
	}
	if x.overLimit() {
		return false, tooLarge()
	}
	return true, nil
}

// takePiece is for each piece of a body that is read on the exchange's goroutine.
func (x *exchange) takePiece(data []byte) {
	x.facts.BytesIn += int64(len(data))
	x.copy.put(data)
	x.replay.put(data)
}

// takeGathered makes a body that is all there one that came whole, unless trailers
// came with it.
func (x *exchange) takeGathered() {
	b := &x.body
	b.ended = true
	x.copy.end()
	trailers := x.bodyDecoder.Trailers()
	if x.stream != nil {
		trailers = x.stream.Trailers()
	}
	if data, there := x.replay.kept(); there && trailers.Len() == 0 {
		b.whole, b.streams, b.raw, b.data = true, false, 0, data
		x.req.Body = message.Body{Kind: message.BodyLength, Length: int64(len(data))}
	}
}
