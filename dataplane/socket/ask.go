package socket

import (
	"errors"
	"os"
)

// question is what Ask is about to write.
type question struct {
	bytes []byte
	sent  int
	asked bool // bytes were given to the kernel, sent of them
	spent bool // the buffer is given back then
}

// Ask writes p and waits for the first bytes that come after it, which it adds
// to Buffered, as Fill does. n is how much of p was written; if that is not all,
// nothing was awaited, and Write has to say why. Nothing may be buffered. What
// others write at the time goes out together with it.
//
// Both are one call into the poller, and the bytes go out without the rest of
// what a Write does. Of what had come before, an end above all, the poller does not
// tell then: at the time look it is looked for.
//
// spent says that p is of GetBuffer and not needed any more: it is given back when
// all of it is written, before anything is awaited.
func (c *Conn) Ask(p []byte, spent bool, look, deadline int64) (n int, err error) {
	if t, a := c.task(); t != nil && c.in == nil {
		return c.askInLoop(t, a, p, spent, look, deadline)
	}
	if c.try == nil || c.in != nil || c.watch != nil {
		if n, err = c.Write(p, deadline); err != nil {
			return n, nil //nolint:nilerr // the next Write says it
		}
		if spent {
			PutBuffer(p)
		}
		return n, c.Fill(0, deadline)
	}
	if deadline != 0 {
		look = min(look, deadline)
	}
	if err = c.armRead(look); err != nil {
		return 0, err
	}
	size := len(p)
	switch n, err = c.askBy(question{bytes: p, spent: spent}, look); {
	case n < size:
		return n, nil
	case err == nil && c.tryN > 0:
		c.w = c.tryN
		return n, nil
	case err == nil:
		return n, orEOF(c.tryErr)
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return n, err
	}
	return n, c.Fill(0, deadline)
}

// askBy writes the question and waits for bytes until the time look. The timer may
// have fired since it was last waited for.
func (c *Conn) askBy(q question, look int64) (n int, err error) {
	if c.ask == nil {
		c.ask = c.askThenRead
	}
	c.question, c.tryWant, c.tryN, c.tryErr = q, 0, 0, nil
	for {
		if err = c.raw.Read(c.ask); !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		c.readArmed = fired
		if c.question.asked || Now() >= look || c.armRead(look) != nil {
			break
		}
	}
	n = c.question.sent
	c.question = question{}
	return n, err
}

// askThenRead is called first to ask, and then whenever there is something to
// read.
func (c *Conn) askThenRead(fd uintptr) bool {
	q := &c.question
	if q.asked {
		return c.tryRead(fd)
	}
	q.asked = true
	n, err := c.wire.send(int(fd), q.bytes, true)
	q.sent = n
	if err != nil || n < len(q.bytes) {
		return true
	}
	if q.spent {
		PutBuffer(q.bytes)
		q.bytes = nil
	}
	// The answer to what another has written a while ago may be there: a look saves
	// the wait in the poller. Whoever wrote it a moment ago would look in vain.
	return c.wire.others && c.tryRead(fd)
}
