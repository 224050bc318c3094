package http2

import (
	"errors"
	"os"

	"github.com/headgate/headgate/dataplane/socket"
)

// read handles frames until the connection ends.
func (c *conn) read() error {
	for {
		err := c.handleBuffered()
		c.tellAwaiters()
		c.mu.Lock()
		c.assign()
		if err == nil && c.peerGoAway {
			c.endIfDrained() // now that what came with the GOAWAY is known
		}
		c.kick()
		deadline := c.sleepUntil(c.deadline())
		c.mu.Unlock()
		if err != nil {
			return err
		}
		if err := c.fill(deadline); err != nil {
			return err
		}
	}
}

// fill waits for bytes, and wakes for what is to be done at a time.
func (c *conn) fill(deadline int64) error {
	c.sock.Release()
	for {
		before := len(c.sock.Buffered())
		err := c.sock.Fill(c.want, deadline)
		c.awake()
		switch {
		case err == nil:
			c.lastRead = c.now
			c.want = 0
			if len(c.sock.Buffered())-before >= socket.SmallBuffer/2 {
				c.want = socket.LargeBuffer
			}
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			if err := c.onTime(); err != nil {
				return err
			}
			c.tellAwaiters()
		case errors.Is(err, socket.ErrInterrupted):
			if c.hasEnded() {
				return err
			}
			c.sock.Resume()
		default:
			return &ConnError{Code: ConnectError, Reason: "connection lost", Err: err}
		}
		c.mu.Lock()
		c.kick()
		deadline = c.sleepUntil(c.deadline())
		c.mu.Unlock()
	}
}

func (c *conn) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// handleBuffered handles everything that is in the buffer.
func (c *conn) handleBuffered() error {
	if !c.prefaced {
		if ok, err := c.readPreface(); !ok {
			return err
		}
	}
	for {
		more, err := c.next()
		c.tellWhole()
		if err != nil {
			var fault *StreamError
			if !errors.As(err, &fault) {
				return err
			}
			if err := c.onStreamFault(fault); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// readPreface takes the fixed bytes that a client begins with (RFC 9113 section
// 3.4).
func (c *conn) readPreface() (bool, error) {
	if c.client {
		c.prefaced = true
		return true, nil
	}
	b := c.sock.Buffered()
	n := min(len(b), len(preface))
	if string(b[:n]) != preface[:n] {
		return false, connError(ProtocolError, "no HTTP/2 connection preface")
	}
	if n < len(preface) {
		c.waits()
		return false, nil
	}
	c.sock.Consume(n)
	c.prefaced = true
	return true, nil
}

// waits notes that what is in the buffer is not whole.
func (c *conn) waits() {
	if c.waitSince == 0 {
		c.waitSince = c.now
	}
}

// next handles one frame, or one piece of DATA. It reports whether there may be
// another.
func (c *conn) next() (more bool, err error) {
	if c.data.pending {
		return c.continueData()
	}
	b := c.sock.Buffered()
	if len(b) < frameHeaderBytes {
		c.notWhole(len(b) > 0)
		return false, nil
	}
	f := parseFrame(b)
	if err := c.expect(&f); err != nil {
		return false, err
	}
	if f.kind == frameData {
		return c.beginData(&f, b[frameHeaderBytes:])
	}
	whole := frameHeaderBytes + f.length
	if len(b) < whole {
		c.notWhole(true)
		return false, nil
	}
	c.waitSince = 0
	if c.block.open {
		c.waitSince = c.block.since
	}
	err = c.dispatch(&f, b[frameHeaderBytes:whole])
	c.sock.Consume(whole)
	return true, err
}

func (c *conn) notWhole(some bool) {
	if some || c.block.open {
		c.waits()
	} else {
		c.waitSince = 0
	}
}

// expect checks what is true of every frame: its size, and whether it may come
// now.
func (c *conn) expect(f *frame) error {
	switch {
	case f.length > maxFrameBytes:
		return connError(FrameSizeError, "frame too large")
	case !c.greeted && (f.kind != frameSettings || f.has(flagAck)):
		return connError(ProtocolError, "the first frame is not SETTINGS")
	case c.block.open && (f.kind != frameContinuation || f.stream != c.block.stream):
		return connError(ProtocolError, "header block interrupted")
	case !c.block.open && f.kind == frameContinuation:
		return connError(ProtocolError, "CONTINUATION without a header block")
	}
	return nil
}

func (c *conn) dispatch(f *frame, p []byte) error {
	switch f.kind {
	case frameHeaders:
		return c.onHeaders(f, p)
	case frameContinuation:
		return c.onContinuation(f, p)
	case framePriority:
		return c.onPriority(f, p)
	case frameReset:
		return c.onReset(f, p)
	case frameSettings:
		return c.onSettings(f, p)
	case framePing:
		return c.onPing(f, p)
	case frameGoAway:
		return c.onGoAway(f, p)
	case frameWindowUpdate:
		return c.onWindowUpdate(f, p)
	case framePushPromise:
		return connError(ProtocolError, "PUSH_PROMISE")
	}
	return c.spend(costControl)
}

// spend charges for what the peer may do for nothing (RFC 9113 section 10.5).
func (c *conn) spend(cost int) error {
	if c.nuisance.spend(c.now, cost) {
		return nil
	}
	// What the peer asks us for pays for the control frames that go with it.
	c.nuisance.left = min(c.nuisance.full, c.nuisance.left+creditFrame*int(c.framesSent.Swap(0)))
	if c.nuisance.left >= 0 {
		return nil
	}
	return connError(EnhanceYourCalm, "too many frames without use")
}

// onStreamFault resets the stream that a fault of the peer broke.
func (c *conn) onStreamFault(fault *StreamError) error {
	if err := c.spend(costError); err != nil {
		return err
	}
	c.o.Counters.Malformed.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserve(16)
	c.out = appendReset(c.out, fault.Stream, fault.Code)
	if s := c.streams.get(fault.Stream); s != nil {
		s.oursReset = true
		c.fail(s, fault)
	} else if known, _ := c.closed.find(fault.Stream); !known {
		c.closed.add(fault.Stream, true)
	}
	return c.tooMuchQueued()
}

// maxQueued bounds what is to be written to a peer that reads nothing: data stops
// at a buffer, so beyond that it is only answers to what the peer keeps sending.
const maxQueued = 4 * socket.LargeBuffer

func (c *conn) tooMuchQueued() error {
	if len(c.out) > maxQueued {
		return connError(EnhanceYourCalm, "the peer does not read")
	}
	return nil
}
