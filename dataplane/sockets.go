package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/headgate/headgate/dataplane/control"
	"github.com/headgate/headgate/dataplane/listener"
	"github.com/headgate/headgate/dataplane/proxy"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
)

// sockets are the listening sockets by what they are bound to. A socket stays
// open for as long as a snapshot wants its address, whatever else changes. Its
// slot is its number in all generations of the engine.
type sockets struct {
	engine   *proxy.Engine
	logger   *slog.Logger
	drains   sync.WaitGroup
	patience context.Context // of all drains; ends with cut
	cut      context.CancelFunc

	mu sync.Mutex
	// guarded by mu
	bound    map[string]*boundSocket
	slots    []bool // taken
	draining []*boundSocket
	udp      map[string]*udpSocket // by address
}

type boundSocket struct {
	*listener.Listener
	key    string    // in sockets.bound
	quic   *quicSide // nil: HTTP/3 is not served
	config *snapshot.Listener
	slot   int
	shown  bool // of the committed snapshot

	rules  atomic.Pointer[listener.Rules] // of the committed snapshot
	counts listener.Counts
	sides  sync.WaitGroup // what was quic and drains
}

func newSockets(engine *proxy.Engine, logger *slog.Logger) *sockets {
	s := &sockets{engine: engine, logger: logger, bound: map[string]*boundSocket{}, udp: map[string]*udpSocket{}}
	s.patience, s.cut = context.WithCancel(context.Background())
	return s
}

// preparedSockets are the sockets of a snapshot that is not live yet.
type preparedSockets struct {
	listeners []*snapshot.Listener
	rules     []*listener.Rules // by index in listeners
	places    []proxy.Place     // likewise
	udp       []*udpSocket      // likewise; of those for which HTTP/3 is turned on
	made      []*boundSocket
	beside    []*listener.Listener // sockets that share their port with one of made, and go
}

// key is what a socket is known by: its address and, if the kernel chooses the
// port, the name, since each such listener has a port of its own.
func key(l *snapshot.Listener) string {
	if chosen(l) {
		return l.Network + ":" + l.Address + " " + l.Name
	}
	return l.Network + ":" + l.Address
}

// chosen reports whether the kernel chooses the port.
func chosen(l *snapshot.Listener) bool {
	return l.Network == "tcp" && strings.HasSuffix(l.Address, ":0")
}

// prepare binds what is not bound yet. rules are those of the listeners. The
// error names the fields at fault.
func (s *sockets) prepare(listeners []*snapshot.Listener, rules []*listener.Rules) (*preparedSockets, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &preparedSockets{
		listeners: listeners, rules: rules,
		places: make([]proxy.Place, len(listeners)), udp: make([]*udpSocket, len(listeners)),
	}
	var faults []error
	for i := range listeners {
		if err := s.prepareOne(p, i); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		s.undo(p)
		return nil, errors.Join(faults...)
	}
	return p, nil
}

// prepareOne binds what listener i has not bound yet. The caller holds mu.
func (s *sockets) prepareOne(p *preparedSockets, i int) error {
	l := p.listeners[i]
	b := s.bound[key(l)]
	if b == nil {
		sock, udp, fault := s.bind(l, p)
		if fault != nil {
			fault.Path = fmt.Sprintf("listeners[%d].%s", i, fault.Path)
			return fault
		}
		b = &boundSocket{Listener: sock, key: key(l), config: l, slot: s.takeSlot()}
		s.bound[b.key] = b
		p.made, p.udp[i] = append(p.made, b), udp
	} else if l.HTTP3 && b.quic == nil {
		udp, err := s.bindUDP(l, b.Addr())
		if err != nil {
			return &control.FieldError{Path: fmt.Sprintf("listeners[%d].http3", i), Err: err}
		}
		p.udp[i] = udp
	}
	p.places[i].Slot = b.slot
	if l.HTTP3 {
		p.places[i].QUICPort = b.Addr().(*net.TCPAddr).Port
	}
	return nil
}

// bind binds what a listener needs that has nothing yet. The path of the fault is
// the listener's own.
func (s *sockets) bind(l *snapshot.Listener, p *preparedSockets) (*listener.Listener, *udpSocket, *control.FieldError) {
	for tries := 0; ; tries++ {
		sock, err := listener.Bind(l.Network, l.Address, s.logger)
		if errors.Is(err, syscall.EADDRINUSE) {
			sock, err = s.bindBeside(l, p, err)
		}
		if err != nil {
			return nil, nil, &control.FieldError{Path: "address", Err: err}
		}
		if !l.HTTP3 {
			return sock, nil, nil
		}
		udp, err := s.bindUDP(l, sock.Addr())
		if err == nil {
			return sock, udp, nil
		}
		sock.Stop()
		if !chosen(l) || tries == maxChoices {
			return nil, nil, &control.FieldError{Path: "http3", Err: err}
		}
	}
}

// bindBeside binds an address that sockets take which are about to go: those of
// the same port on another host that p does not want. Without any, fault stays.
func (s *sockets) bindBeside(l *snapshot.Listener, p *preparedSockets, fault error) (*listener.Listener, error) {
	_, port, err := net.SplitHostPort(l.Address)
	if l.Network != "tcp" || err != nil {
		return nil, fault
	}
	wanted := map[string]bool{}
	for _, other := range p.listeners {
		wanted[key(other)] = true
	}
	var leaving []*listener.Listener
	for _, b := range s.bound {
		if a, ok := b.Addr().(*net.TCPAddr); ok && !wanted[b.key] && strconv.Itoa(a.Port) == port {
			leaving = append(leaving, b.Listener)
		}
	}
	if len(leaving) == 0 {
		return nil, fault
	}
	p.beside = append(p.beside, leaving...)
	return listener.BindBeside(l.Address, leaving, s.logger)
}

func (s *sockets) takeSlot() int {
	for i, taken := range s.slots {
		if !taken {
			s.slots[i] = true
			return i
		}
	}
	s.slots = append(s.slots, true)
	return len(s.slots) - 1
}

func (s *sockets) abort(p *preparedSockets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undo(p)
}

// undo closes what prepare made. The caller holds mu.
func (s *sockets) undo(p *preparedSockets) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for _, b := range p.made {
		delete(s.bound, b.key)
		s.slots[b.slot] = false
		b.Drain(over)
	}
	for _, l := range p.beside {
		l.Keep()
	}
	for _, udp := range p.udp {
		s.releaseUDP(udp)
	}
}

// commit accepts on the new sockets and drains those that are gone. The
// generation that has them must be live already.
func (s *sockets) commit(p *preparedSockets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := map[string]bool{}
	for i, l := range p.listeners {
		b := s.bound[key(l)]
		wanted[key(l)] = true
		b.config, b.shown = l, true
		b.rules.Store(p.rules[i])
		b.SetLimit(connectionLimit(l))
		if l.HTTP3 && b.quic == nil {
			s.openQUIC(b, p.udp[i])
		} else if !l.HTTP3 && b.quic != nil {
			s.retireQUIC(b)
		}
	}
	for _, b := range p.made {
		b.Serve(s.opener(b))
	}
	for k, b := range s.bound {
		if !wanted[k] {
			delete(s.bound, k)
			s.retire(b)
		}
	}
}

// opener makes connections of what a socket accepts, by the rules of the
// snapshot that is committed then.
func (s *sockets) opener(b *boundSocket) func(net.Conn, uint64) listener.Conn {
	n := uint64(shards())
	return func(c net.Conn, i uint64) listener.Conn {
		shard := int(i % n)
		if b.rules.Load().Plain() {
			return s.engine.NewConn(c, b.slot, shard)
		}
		return listener.NewPreface(c, b.rules.Load, &b.counts, func() *socket.Loop { return s.engine.Loop(shard) }, func(c net.Conn, client netip.AddrPort) listener.Conn {
			return s.engine.NewConnFor(client, c, b.slot, shard)
		})
	}
}

// retire closes a socket, so that the next snapshot can bind its address, drains
// its connections in the background and frees its slot when the last one is
// gone. The caller holds mu.
func (s *sockets) retire(b *boundSocket) {
	b.Stop()
	if b.quic != nil {
		s.retireQUIC(b)
	}
	s.draining = append(s.draining, b)
	s.drains.Go(func() {
		ctx, cancel := context.WithTimeout(s.patience, b.config.DrainTimeout)
		defer cancel()
		if cut := b.Drain(ctx); cut > 0 {
			s.logger.Warn("connections were cut after the drain timeout", "listener", b.config.Name, "connections", cut)
		}
		b.sides.Wait()
		s.free(b)
	})
}

func (s *sockets) free(b *boundSocket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine.Forget(b.slot)
	s.slots[b.slot] = false
	for i := range s.draining {
		if s.draining[i] == b {
			s.draining = append(s.draining[:i], s.draining[i+1:]...)
			return
		}
	}
}

// drainAll drains every socket and waits until that is done, also for those that
// were drained before. All of them are cut when hurry ends.
func (s *sockets) drainAll(hurry context.Context) {
	defer s.cut()
	defer context.AfterFunc(hurry, s.cut)()
	s.mu.Lock()
	for k, b := range s.bound {
		delete(s.bound, k)
		s.retire(b)
	}
	s.mu.Unlock()
	s.drains.Wait()
}

// connectionLimit is how many connections a listener may have open.
func connectionLimit(l *snapshot.Listener) int {
	if l.MaxConnections > 0 {
		return l.MaxConnections
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0
	}
	return int(min(files.Cur/2, 1<<30))
}
