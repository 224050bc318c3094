package http2

// worker is a goroutine that runs handlers, one after the other: its stack has
// the size that they need, and requests that came together cost one wake-up.
//
// One worker at a time takes requests off the list of those that are ready. It is
// on duty until it has to wait; then another goes on with the list, so that
// nobody waits for a request that waits.
type worker struct {
	wake     chan bool // false: go home
	duty     bool      // changed by the worker alone, with mu held, or while it sleeps
	detached bool      // the stream that was handled last is not to be finished
}

// Continuer is what a detached stream goes on with.
type Continuer interface{ Continue() }

// assign sees to it that somebody takes the requests that are ready. mu is held.
func (c *conn) assign() {
	if c.dispatching || len(c.ready) == c.readyAt {
		return
	}
	c.dispatching = true
	if n := len(c.workers); n > 0 {
		w := c.workers[n-1]
		c.workers[n-1] = nil
		c.workers = c.workers[:n-1]
		w.duty = true
		w.wake <- true
		return
	}
	c.staff++
	go c.work(&worker{wake: make(chan bool, 1), duty: true})
}

func (c *conn) work(w *worker) {
	for {
		for s := c.take(w, nil); s != nil; {
			w.run(s)
			if w.detached {
				s, w.detached = nil, false // it may be another request's by now
			}
			s = c.take(w, s)
		}
		if !c.sleeps(w) || !<-w.wake {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.staff--
	c.staffGone.Broadcast()
}

// run handles a request, or goes on with it.
func (w *worker) run(s *Stream) {
	s.worker = w
	k := s.next
	if k == nil {
		s.c.handle(s)
		return
	}
	s.next, w.detached = nil, true
	k.Continue()
}

// take finishes the stream that was handled, if there is one, and takes the next
// off the list. It is nil if there is none, or another worker takes them.
func (c *conn) take(w *worker, done *Stream) *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done != nil {
		done.finishLocked()
		c.running--
		c.rest()
	}
	if !w.duty {
		if c.dispatching {
			return nil
		}
		w.duty, c.dispatching = true, true
	}
	if c.readyAt < len(c.ready) {
		s := c.ready[c.readyAt]
		c.ready[c.readyAt] = nil
		c.readyAt++
		return s
	}
	c.ready, c.readyAt = c.ready[:0], 0
	w.duty, c.dispatching = false, false
	return nil
}

// sleeps puts a worker among those that have nothing to do. It reports whether
// there may be more to do.
func (c *conn) sleeps(w *worker) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.workers = append(c.workers, w)
	return true
}

// MayWait says that the handler may wait for something else than this stream. It
// may be called more than once.
func (s *Stream) MayWait() {
	if w := s.worker; w != nil && w.duty {
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		s.yieldDuty()
	}
}

// yieldDuty has another worker go on with what is ready, before this one waits.
// mu is held.
func (s *Stream) yieldDuty() {
	if w := s.worker; w != nil && w.duty {
		w.duty, s.c.dispatching = false, false
		s.c.assign()
	}
}

// OnBehalf has the waits of a client's stream count as those of a server's stream,
// whose handler uses it.
func (s *Stream) OnBehalf(of *Stream) { s.behalf = of }

// letOthers is MayWait for the stream on whose behalf this one is used. It reports
// true, as if what is waited for might have come. mu is held, and released
// meanwhile.
func (s *Stream) letOthers() bool {
	of := s.behalf
	s.behalf = nil
	s.c.mu.Unlock()
	of.MayWait()
	s.c.mu.Lock()
	return true
}

// Detach keeps the stream of a server from being finished when its handler
// returns: whoever has it then calls Finish. It is called by the handler.
func (s *Stream) Detach() {
	s.worker.detached = true
	s.detached = true
}

// Continue has a worker go on with a detached stream. It does not wait.
func (s *Stream) Continue(k Continuer) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s.next = k
	c.ready = append(c.ready, s)
	c.assign()
}

// dismiss sends the workers home that have nothing to do.
func (c *conn) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dismissLocked()
}

func (c *conn) dismissLocked() {
	for i, w := range c.workers {
		w.wake <- false
		c.workers[i] = nil
	}
	c.workers = c.workers[:0]
}

// awaitStaff waits until every request is done with and every worker gone.
func (c *conn) awaitStaff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.staff > 0 || c.running > 0 {
		c.staffGone.Wait()
	}
}
