package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
)

// multiplexer is one HTTP/2 connection with several requests at a time. It acts
// on all frames that were read before it writes, so that its own work on the
// load's core is small.
type multiplexer struct {
	conn     net.Conn
	in       *bufio.Reader
	out      []byte
	scenario *scenario
	size     int // bytes in the body of an answer

	remembers  bool // the peer keeps a table of the usual size for the fields of requests
	remembered bool // and they are in it
	nextStream uint32
	open       map[uint32]*pending
	spare      []*pending
	window     int // bytes of bodies that may be sent
	short      int // requests that wait for room in it
	received   int // since the window of this side was opened again
	settled    bool
}

// pending is a request that was sent.
type pending struct {
	due    time.Time
	got    int  // bytes of the body
	headed bool // the head of the answer has come
}

func newMultiplexer(conn net.Conn, s *scenario) (*multiplexer, error) {
	c := &multiplexer{
		conn: conn, in: bufio.NewReaderSize(conn, 64<<10), scenario: s, size: s.size(),
		remembers: true, nextStream: 1, open: map[uint32]*pending{}, window: defaultWindow,
	}
	c.out = append(c.out, preface...)
	c.out = appendSettings(c.out, settingEnablePush, 0, settingInitialWindowSize, wideWindow)
	c.out = appendWindowUpdate(c.out, wideWindow)
	for !c.settled { // the peer's settings say how requests may be written
		if err := c.turn(nil, nil); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *multiplexer) close() { _ = c.conn.Close() }

func (c *multiplexer) run(next arrivals, t *tally) error {
	for range max(1, c.scenario.streams) {
		c.send(next)
	}
	for len(c.open)+c.short > 0 {
		if err := c.turn(next, t); err != nil {
			return err
		}
	}
	return nil
}

// turn writes what is to be written, waits, and acts on all frames that came.
func (c *multiplexer) turn(next arrivals, t *tally) error {
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if len(c.out) > 0 {
		if _, err := c.conn.Write(c.out); err != nil {
			return fmt.Errorf("send frames: %w", err)
		}
		c.out = c.out[:0]
	}
	for first := true; first || c.wholeFrame(); first = false {
		f, err := nextFrame(c.in)
		if err != nil {
			return fmt.Errorf("read a frame: %w", err)
		}
		if err := c.take(&f, next, t); err != nil {
			return err
		}
	}
	return nil
}

// wholeFrame reports whether the next frame was read already.
func (c *multiplexer) wholeFrame() bool {
	if c.in.Buffered() < frameHead {
		return false
	}
	head, err := c.in.Peek(frameHead)
	return err == nil && c.in.Buffered() >= frameHead+(int(head[0])<<16|int(head[1])<<8|int(head[2]))
}

// send adds a request, if one is due and the window has room for its body. The
// windows of streams always have: no body is longer than they are at first.
func (c *multiplexer) send(next arrivals) {
	body := c.body()
	if len(body) > c.window {
		c.short++
		return
	}
	due, more := next()
	if !more {
		return
	}
	c.open[c.nextStream] = c.pending(due)
	head := frame{kind: frameHeaders, flags: flagEndHeaders | flagEndStream, stream: c.nextStream, payload: c.block()}
	if len(body) > 0 {
		head.flags = flagEndHeaders
	}
	c.out = appendFrame(c.out, head)
	if len(body) > 0 {
		c.window -= len(body)
		c.out = appendFrame(c.out, frame{kind: frameData, flags: flagEndStream, stream: c.nextStream, payload: body})
	}
	c.nextStream += 2
}

func (c *multiplexer) body() []byte {
	if c.scenario.call {
		return callMessage
	}
	return nil
}

func (c *multiplexer) pending(due time.Time) *pending {
	if n := len(c.spare); n > 0 {
		p := c.spare[n-1]
		c.spare = c.spare[:n-1]
		*p = pending{due: due}
		return p
	}
	return &pending{due: due}
}

// block is the request's fields. As with other clients, the peer remembers them
// after the first request.
func (c *multiplexer) block() []byte {
	block := []byte{indexedGET, indexedHTTPS}
	fields := [][2]string{{":path", c.scenario.path}, {":authority", "bench.test"}, {"user-agent", "bench"}}
	if c.scenario.call {
		block[0] = indexedPOST
		fields = append(fields, [2]string{"content-type", "application/grpc"}, [2]string{"te", "trailers"})
	}
	first := byte(literalPlain)
	if c.remembers {
		first = literalIndexed
	}
	for i, f := range fields {
		if c.remembered {
			block = append(block, byte(indexed|firstDynamic+len(fields)-1-i))
		} else {
			block = appendLiteral(block, first, f[0], f[1])
		}
	}
	c.remembered = c.remembers
	return block
}

// take acts on one frame.
func (c *multiplexer) take(f *frame, next arrivals, t *tally) error {
	switch f.kind {
	case frameHeaders, frameData:
		return c.answer(f, next, t)
	case frameReset:
		return errors.New("the proxy reset a stream")
	case frameGoAway:
		return errors.New("the proxy said GOAWAY")
	case frameSettings:
		c.settings(f)
	case framePing:
		if !f.has(flagAck) {
			c.out = appendFrame(c.out, frame{kind: framePing, flags: flagAck, payload: f.payload})
		}
	case frameWindowUpdate:
		if f.stream == 0 && len(f.payload) == 4 {
			c.window += int(binary.BigEndian.Uint32(f.payload))
			short := c.short
			c.short = 0
			for range short {
				c.send(next)
			}
		}
	}
	return nil
}

// settings takes note of how requests may be written, and says so.
func (c *multiplexer) settings(f *frame) {
	if f.has(flagAck) {
		return
	}
	const usualTable = 4096
	for s := f.payload; len(s) >= 6; s = s[6:] {
		if binary.BigEndian.Uint16(s) == settingHeaderTableSize && binary.BigEndian.Uint32(s[2:]) < usualTable {
			c.remembers = false
		}
	}
	c.settled = true
	c.out = appendFrame(c.out, frame{kind: frameSettings, flags: flagAck})
}

// answer takes a piece of an answer, and sends the next request behind its end.
func (c *multiplexer) answer(f *frame, next arrivals, t *tally) error {
	p := c.open[f.stream]
	if p == nil {
		return fmt.Errorf("an answer on stream %d, which has no request", f.stream)
	}
	if f.kind == frameData {
		data, err := f.data()
		if err != nil {
			return err
		}
		p.got += len(data)
		c.refill(len(f.payload))
	} else if !p.headed {
		p.headed = true
		if !startsWithOK(f.payload) {
			return errors.New("an answer's status is not 200")
		}
	}
	if !f.has(flagEndStream) {
		return nil
	}
	if p.got != c.size || c.scenario.call && f.kind == frameData {
		return fmt.Errorf("an answer of %d bytes, not %d, or without trailers", p.got, c.size)
	}
	t.latency.add(time.Since(p.due))
	delete(c.open, f.stream)
	c.spare = append(c.spare, p)
	c.send(next)
	return nil
}

// refill opens this side's window again when much of it was used.
func (c *multiplexer) refill(bytes int) {
	c.received += bytes
	if c.received >= windowStep {
		c.out = appendWindowUpdate(c.out, c.received)
		c.received = 0
	}
}
