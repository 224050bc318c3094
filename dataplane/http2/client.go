package http2

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
)

// Client is the client side of a connection.
type Client struct{ conn conn }

// NewClient makes the client side of a connection that was agreed to speak HTTP/2.
func NewClient(c *socket.Conn, o Options) *Client {
	cl := &Client{}
	cl.conn.init(c, o, true)
	return cl
}

// Start runs the connection on a goroutine of its own until it ends.
func (c *Client) Start() { go func() { _ = c.conn.run() }() }

// Done is closed when nothing of the connection runs any more. Every stream has
// failed by then that had not ended.
func (c *Client) Done() <-chan struct{} { return c.conn.done }

// Err is why the connection ended, or nil.
func (c *Client) Err() error {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	return c.conn.endErr
}

// CanTake reports whether NewStream would succeed.
func (c *Client) CanTake() bool {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	return c.conn.refusal() == nil
}

// Streams is how many streams are open.
func (c *Client) Streams() int {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	return c.conn.streams.len() + c.conn.opened
}

// ExtendedConnect reports whether the server has said that it takes :protocol
// (RFC 8441). What it says comes with the first bytes of the connection.
func (c *Client) ExtendedConnect() bool {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	return c.conn.peerExtended
}

// AwaitSettings waits until the server has said what it takes: how many streams,
// and whether extended CONNECT. Without it a client goes by what is usual. The
// error is why the connection ended, or os.ErrDeadlineExceeded.
func (c *Client) AwaitSettings(deadline int64) error { return c.conn.awaitSettings(deadline) }

func (c *conn) awaitSettings(deadline int64) error {
	select {
	case <-c.settled:
		return nil
	default:
	}
	late := (<-chan time.Time)(nil)
	if deadline != 0 {
		timer := time.NewTimer(time.Duration(deadline - socket.Now()))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-c.settled:
		return nil
	case <-c.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return errors.Join(ErrClosed, c.endErr)
	case <-late:
		return os.ErrDeadlineExceeded
	}
}

// ExtendedConnect is that of the client whose stream it is, once the server has
// said what it takes. The error is that of AwaitSettings; deadline 0 is none.
func (s *Stream) ExtendedConnect(deadline int64) (bool, error) {
	if err := s.c.awaitSettings(deadline); err != nil {
		return false, err
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.c.peerExtended, nil
}

// NewStream makes a stream, which is opened by WriteRequestHead and ended by
// Finish. The error is ErrFull, or one that says that the connection is going
// away or has ended; nothing was sent then.
func (c *Client) NewStream() (*Stream, error) {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	if err := c.conn.refusal(); err != nil {
		return nil, err
	}
	s := c.conn.newStream()
	s.listed = true
	s.window = c.conn.o.StreamWindow
	c.conn.opened++
	return s, nil
}

// refusal is why no stream can be made. mu is held.
func (c *conn) refusal() error {
	switch {
	case c.ended && c.endErr != nil:
		return c.endErr
	case c.ended, c.peerGoAway, c.goAwaySent, c.nextID > maxStreamID:
		return errGoingAway
	case c.full():
		return ErrFull
	}
	return nil
}

// full reports whether there are as many streams as may be. mu is held.
func (c *conn) full() bool {
	return int64(c.streams.len()+c.opened) >= min(c.peerStreams, int64(c.o.MaxConcurrentStreams))
}

// tellRoom calls OnRoom if a client's connection was full and is no more, or has no
// streams. mu is held.
func (c *conn) tellRoom(wasFull bool) {
	if c.o.OnRoom != nil && (wasFull && !c.full() || c.streams.len()+c.opened == 0) {
		c.o.OnRoom()
	}
}

var errGoingAway = &StreamError{Code: RefusedStream, Reason: "the connection takes no more streams", NotProcessed: true, GoingAway: true}

// Shutdown lets the streams that are open be the last, and ends the connection
// after them. It does not wait.
func (c *Client) Shutdown() {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	if !c.conn.ended && !c.conn.goAwaySent {
		c.conn.finalGoAway()
	}
}

// Yield is Shutdown if there are no streams; it reports whether that was so.
func (c *Client) Yield() bool {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	if c.conn.ended || c.conn.goAwaySent || c.conn.streams.len()+c.conn.opened > 0 {
		return false
	}
	c.conn.finalGoAway()
	return true
}

// Close cuts the connection, whatever it is doing. It does not wait.
func (c *Client) Close() { c.conn.close() }

// ReadHead waits for the next head of the response: any number of interim ones
// and the final one, after which it is io.EOF. It and its bytes are valid until the next call. The error is
// that of Err, or os.ErrDeadlineExceeded when deadline, a time of socket.Now or
// 0 for none, has passed.
func (s *Stream) ReadHead(deadline int64) (*message.Response, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(s.heads) == 0 {
		switch {
		case s.interrupted:
			return nil, socket.ErrInterrupted
		case s.err != nil:
			return nil, s.err
		case s.recvEnd:
			return nil, io.EOF
		case !s.wait(&s.reader, deadline):
			return nil, os.ErrDeadlineExceeded
		}
	}
	return s.nextHead(), nil
}

// nextHead makes the first head that was not read the current one. mu is held.
func (s *Stream) nextHead() *message.Response {
	s.c.putHead(s.current)
	s.current = s.heads[0]
	s.heads = s.heads[:copy(s.heads, s.heads[1:])]
	s.current.response(&s.response)
	return &s.response
}

// Finish gives the stream of a client back, or one that was detached. One that has
// not ended is cancelled.
func (s *Stream) Finish() { s.finish() }
