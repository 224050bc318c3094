package socket

// letter is what one connection is about to write.
type letter struct {
	to     *Stream
	bytes  []byte
	spent  bool   // the buffer is given back when all is written
	task   *watch // waits for it, or for what comes after it
	sleeps bool   // and for nothing else
	n      int    // written
	done   bool
}

// deliver writes what waits to be, and goes on with those who wait for that, or have
// given way. It returns how many that were, or was written.
func (l *Loop) deliver() int {
	n := len(l.letters)
	l.write()
	due := l.written
	l.written = l.spare
	for i, t := range due {
		due[i] = nil
		t.proceed()
	}
	l.spare = due[:0]
	return max(n, len(due))
}

// write writes what waits to be.
func (l *Loop) write() {
	for i, p := range l.letters {
		l.letters[i] = nil
		p.write()
		switch {
		case p.sleeps:
			p.sleeps = false
			l.written = append(l.written, p.task)
		case p.n < len(p.bytes) && p.task.waits != nil && p.task.waits.leave(&p.task.self):
			p.task.waits = nil // who is called meanwhile is not to go on twice
			l.written = append(l.written, p.task)
		}
	}
	l.letters = l.letters[:0]
}

func (p *letter) write() {
	p.n, _ = sendNow(p.to.fd, p.bytes) // an error comes again at the next write
	p.to.letGo()
	p.done = true
	if p.spent && p.n == len(p.bytes) {
		PutBuffer(p.bytes)
		p.bytes = nil
	}
}

// post has a letter written, together with the others; or not at all, if the
// connection is closed.
func (l *Loop) post(p *letter) {
	p.n, p.done = 0, false
	if !p.to.hold() {
		p.done = true
		return
	}
	l.letters = append(l.letters, p)
}
