package listener

import (
	"context"
	"sync"
)

// Side is a second way to a listener, such as QUIC beside TCP. Its connections count
// as the listener's and against its limit, but end apart. Whoever accepts them does
// so elsewhere.
type Side struct {
	l       *Listener
	serving sync.WaitGroup

	// guarded by l.mu
	conns    map[Conn]struct{}
	draining bool
}

// NewSide is a side of a listener. It must be drained.
func (l *Listener) NewSide() *Side { return &Side{l: l, conns: map[Conn]struct{}{}} }

// HasRoom reports whether another connection may come.
func (s *Side) HasRoom() bool {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.hasRoom()
}

func (s *Side) hasRoom() bool { return !s.draining && !s.l.overLimit() }

// Start has the connection that open makes served on a goroutine of its own, unless
// there is no room for it; n counts the connections of the listener from 0.
func (s *Side) Start(open func(n uint64) Conn) bool {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if !s.hasRoom() {
		return false
	}
	c := open(l.accepted)
	l.accepted++
	l.beside++
	s.conns[c] = struct{}{}
	s.serving.Go(func() {
		defer s.forget(c)
		c.Serve()
	})
	return true
}

func (s *Side) forget(c Conn) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	delete(s.conns, c)
	s.l.beside--
	s.l.wake()
}

// Drain lets what is under way finish, and takes no more. When ctx ends, the
// connections that are left are cut. It returns when none is served any more, with
// how many were cut.
func (s *Side) Drain(ctx context.Context) (cut int) {
	return drain(ctx, &s.serving, s.close)
}

// close turns new connections away and lists those that are open.
func (s *Side) close() []Conn {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.draining = true
	return list(s.conns)
}
