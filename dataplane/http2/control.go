package http2

import "encoding/binary"

// onPriority takes a PRIORITY frame (RFC 9113 section 6.3) and passes it over.
func (c *conn) onPriority(f *frame, p []byte) error {
	switch {
	case f.stream == 0:
		return connError(ProtocolError, "PRIORITY on stream 0")
	case len(p) != 5:
		return c.faultOf(f.stream, FrameSizeError, "PRIORITY that has not 5 bytes")
	case binary.BigEndian.Uint32(p)&maxStreamID == f.stream:
		return c.faultOf(f.stream, ProtocolError, "stream that depends on itself")
	}
	return c.spend(costControl)
}

// faultOf is the fault of a stream, or of the connection if the stream is idle,
// which cannot be reset.
func (c *conn) faultOf(id uint32, code ErrCode, reason string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isIdle(id) {
		return connError(code, reason)
	}
	return streamError(id, code, reason)
}

// onReset takes a RST_STREAM frame (section 6.4).
func (c *conn) onReset(f *frame, p []byte) error {
	switch {
	case len(p) != 4:
		return connError(FrameSizeError, "RST_STREAM that has not 4 bytes")
	case f.stream == 0:
		return connError(ProtocolError, "RST_STREAM on stream 0")
	}
	if err := c.spend(costControl); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams.get(f.stream)
	if s == nil {
		if c.isIdle(f.stream) {
			return connError(ProtocolError, "RST_STREAM on an idle stream")
		}
		return nil
	}
	c.o.Counters.PeerResets.Add(1)
	code, answered := ErrCode(binary.BigEndian.Uint32(p)), s.sentHead
	c.fail(s, &StreamError{Stream: s.id, Code: code, Remote: true, NotProcessed: c.client && code == RefusedStream})
	if !c.client && !answered && !c.resets.spend(c.now, 1) {
		return connError(EnhanceYourCalm, "too many streams reset")
	}
	return nil
}

// onSettings takes a SETTINGS frame (section 6.5).
func (c *conn) onSettings(f *frame, p []byte) error {
	switch {
	case f.stream != 0:
		return connError(ProtocolError, "SETTINGS on a stream")
	case f.has(flagAck) && len(p) > 0:
		return connError(FrameSizeError, "SETTINGS acknowledgement with a payload")
	case len(p)%6 != 0:
		return connError(FrameSizeError, "SETTINGS that is not a multiple of 6 bytes")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.has(flagAck) {
		return c.settingsAcked()
	}
	if err := c.spend(costSettings); err != nil {
		return err
	}
	for ; len(p) > 0; p = p[6:] {
		if err := c.set(binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:])); err != nil {
			return err
		}
	}
	if !c.greeted {
		c.greeted = true
		close(c.settled)
	}
	c.reserve(16)
	c.out = appendFrame(c.out, 0, frameSettings, flagAck, 0)
	return c.tooMuchQueued()
}

func (c *conn) settingsAcked() error {
	if c.settingsOwed == 0 {
		return c.spend(costSettings)
	}
	c.settingsOwed--
	c.trip.sample(c.now - c.settingsSent)
	return nil
}

// set takes one parameter (section 6.5.2). mu is held.
func (c *conn) set(id uint16, value uint32) error {
	switch id {
	case settingTableSize:
		c.encoder.setMax(value)
	case settingEnablePush:
		if value > 1 || value == 1 && c.client {
			return connError(ProtocolError, "bad SETTINGS_ENABLE_PUSH")
		}
	case settingMaxStreams:
		full := c.full()
		c.peerStreams = int64(value)
		c.tellRoom(full)
	case settingWindow:
		return c.setWindow(value)
	case settingFrameSize:
		if value < maxFrameBytes || value > 1<<24-1 {
			return connError(ProtocolError, "bad SETTINGS_MAX_FRAME_SIZE")
		}
	case settingExtendedConnect:
		if value > 1 || value == 0 && c.peerExtended {
			return connError(ProtocolError, "bad SETTINGS_ENABLE_CONNECT_PROTOCOL")
		}
		c.peerExtended = value == 1
	}
	return nil
}

// setWindow changes the window that streams begin with, and with it those of all
// that are open, which may become negative (section 6.9.2). mu is held.
func (c *conn) setWindow(value uint32) error {
	if value > maxWindow {
		return connError(FlowControlError, "SETTINGS_INITIAL_WINDOW_SIZE too large")
	}
	delta := int64(value) - c.peerWindow
	c.peerWindow = int64(value)
	for s := range c.streams.all() {
		if s.sendWindow += delta; s.sendWindow > maxWindow {
			return connError(FlowControlError, "window of a stream too large")
		}
		if delta > 0 {
			s.writer.wake()
		}
	}
	return nil
}

// What our PING frames hold; nobody else can know the two apart.
const (
	pingAlive = 0x686561642d6f6b3f + iota
	pingTrip
	pingShutdown
)

// onPing takes a PING frame (section 6.7).
func (c *conn) onPing(f *frame, p []byte) error {
	switch {
	case len(p) != 8:
		return connError(FrameSizeError, "PING that has not 8 bytes")
	case f.stream != 0:
		return connError(ProtocolError, "PING on a stream")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	data := binary.BigEndian.Uint64(p)
	if f.has(flagAck) {
		return c.pingAcked(data)
	}
	c.reserve(32)
	c.out = appendPing(c.out, flagAck, data)
	if err := c.spend(costControl); err != nil {
		return err
	}
	return c.tooMuchQueued()
}

func (c *conn) pingAcked(data uint64) error {
	switch {
	case data == pingAlive && c.pingSent != 0:
		c.pingSent = 0
	case data == pingTrip && c.trip.asked != 0:
		c.trip.sample(c.now - c.trip.asked)
		c.trip.asked = 0
	case data == pingShutdown && c.draining != 0:
		c.finalGoAway()
	default:
		return c.spend(costControl)
	}
	return nil
}

// onGoAway takes a GOAWAY frame (section 6.8): streams above the last one that it
// names were not looked at.
func (c *conn) onGoAway(f *frame, p []byte) error {
	switch {
	case f.stream != 0:
		return connError(ProtocolError, "GOAWAY on a stream")
	case len(p) < 8:
		return connError(FrameSizeError, "GOAWAY of less than 8 bytes")
	}
	if err := c.spend(costControl); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := binary.BigEndian.Uint32(p) & maxStreamID
	code := ErrCode(binary.BigEndian.Uint32(p[4:]))
	if c.peerGoAway && last > c.peerLast {
		last = c.peerLast
	}
	c.peerGoAway, c.peerLast = true, last
	if c.client {
		c.failAbove(last, code)
	}
	if code != NoError {
		c.peerSaid = &ConnError{Code: code, Reason: string(p[8:min(len(p), 8+256)]), Remote: true}
	}
	return nil
}

// failAbove ends the streams that the peer has not looked at. mu is held.
func (c *conn) failAbove(last uint32, code ErrCode) {
	for again := true; again; {
		again = false
		for s := range c.streams.all() {
			if s.id > last {
				c.fail(s, &StreamError{Stream: s.id, Code: code, Remote: true, NotProcessed: true, GoingAway: true})
				again = true
				break // the lock was released meanwhile
			}
		}
	}
}

// onWindowUpdate takes a WINDOW_UPDATE frame (section 6.9).
func (c *conn) onWindowUpdate(f *frame, p []byte) error {
	if len(p) != 4 {
		return connError(FrameSizeError, "WINDOW_UPDATE that has not 4 bytes")
	}
	if err := c.spend(costControl); err != nil {
		return err
	}
	increment := int64(binary.BigEndian.Uint32(p) & maxStreamID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.stream == 0 {
		return c.widen(increment)
	}
	s := c.streams.get(f.stream)
	switch {
	case s == nil && c.isIdle(f.stream):
		return connError(ProtocolError, "WINDOW_UPDATE on an idle stream")
	case s == nil:
		return nil
	case increment == 0:
		return streamError(s.id, ProtocolError, "WINDOW_UPDATE of 0")
	case s.sendWindow+increment > maxWindow:
		return streamError(s.id, FlowControlError, "window of a stream too large")
	}
	s.sendWindow += increment
	s.writer.wake()
	return nil
}

// widen adds to what we may send on the connection. mu is held.
func (c *conn) widen(increment int64) error {
	switch {
	case increment == 0:
		return connError(ProtocolError, "WINDOW_UPDATE of 0")
	case c.sendWindow+increment > maxWindow:
		return connError(FlowControlError, "window of the connection too large")
	}
	c.sendWindow += increment
	c.unblock()
	return nil
}
