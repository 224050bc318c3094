// Package listener owns the sockets that clients connect to: it binds them,
// accepts within a bound, keeps account of the open connections, and drains
// them when the socket goes. It must not know what is spoken on a connection.
package listener

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/dataplane/socket"
)

// Conn is a connection that is being served.
type Conn interface {
	Serve() // runs the connection to its end
	Drain() // what is under way is the last; idle ones end now. A second call does nothing
	Close() // ends it at once
}

// attended is a Conn that can be served without a goroutine. Attend is Serve that
// does not wait: over is called at the end. It reports false if that cannot be.
type attended interface {
	Attend(over func()) bool
}

// beginning is a Conn that needs a goroutine at first, and may need none later. Begin
// is Serve that does not wait for the end if it can do without: over is called then.
type beginning interface {
	Begin(over func())
}

// Listener is a bound socket and the connections that came over it. Serve is
// called once at most; Stop and then Drain end it.
type Listener struct {
	network, address string
	socket           listening
	door             *socket.Door
	logger           *slog.Logger
	waits            bool // the socket does not listen before Serve
	accepting        sync.WaitGroup
	serving          sync.WaitGroup

	mu sync.Mutex
	// guarded by mu
	conns    map[Conn]struct{}
	beside   int           // connections of its sides
	limit    int           // connections at most; 0: no limit
	room     chan struct{} // closed when a connection may be accepted; nil while that is so
	stopping bool          // the socket goes; what waits is still accepted
	draining bool
	accepted uint64
}

// listening is a *socket.Listening.
type listening interface {
	syscall.Conn
	Accept() (*socket.Stream, error)
	AcceptNow() (*socket.Stream, error)
	SetDeadline(t time.Time) error
	Addr() net.Addr
	Close() error
}

// Bind opens the socket. Connections wait in the kernel's queue until Serve. A
// unix socket that nobody listens on any more is replaced. network is "tcp" or
// "unix".
func Bind(network, address string, logger *slog.Logger) (*Listener, error) {
	if network == "unix" {
		if err := removeStale(address); err != nil {
			return nil, err
		}
	}
	// Dead peers are found by our own timeouts; the kernel's keep-alive would
	// cost system calls for each connection.
	config := net.ListenConfig{KeepAlive: -1}
	bound, err := config.Listen(context.Background(), network, address)
	if err != nil {
		return nil, err
	}
	return newListener(network, address, bound, logger)
}

// newListener takes over a socket that is bound.
func newListener(network, address string, bound net.Listener, logger *slog.Logger) (*Listener, error) {
	listening, err := socket.Listen(bound)
	if err != nil {
		return nil, err
	}
	door, err := socket.NewDoor()
	if err != nil {
		return nil, errors.Join(err, listening.Close())
	}
	l := &Listener{network: network, address: address, socket: listening, door: door, logger: logger, conns: map[Conn]struct{}{}}
	if network == "tcp" {
		// Linux hands it down to what is accepted.
		err = l.control(func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) })
	}
	if err != nil {
		return nil, errors.Join(err, listening.Close(), door.Close())
	}
	return l, nil
}

// removeStale removes a socket file that refuses connections.
func removeStale(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%s is there and is not a socket", path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("%s is in use", path)
	}
	return os.Remove(path)
}

// Network is "tcp" or "unix".
func (l *Listener) Network() string { return l.network }

// Address is what the socket was bound to, as it was written.
func (l *Listener) Address() string { return l.address }

// Addr is the address that the kernel gave.
func (l *Listener) Addr() net.Addr { return l.socket.Addr() }

// Counts are the connections that are open and those that were accepted ever.
func (l *Listener) Counts() (open int, accepted uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns) + l.beside, l.accepted
}

// SetLimit bounds the open connections; 0 is no bound. Over it, connections wait
// in the kernel's queue.
func (l *Listener) SetLimit(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = n
	l.wake()
}

// Serve accepts connections and has each served on a goroutine of its own. open
// wraps what was accepted; n counts connections from 0.
func (l *Listener) Serve(open func(c net.Conn, n uint64) Conn) {
	l.begin()
	l.accepting.Go(func() { l.accept(open) })
}

func (l *Listener) accept(open func(c net.Conn, n uint64) Conn) {
	delay := time.Duration(0)
	for {
		l.awaitRoom()
		if l.ends() { // that, and not room, may be why the wait is over
			l.acceptWaiting(open)
			return
		}
		c, err := l.socket.Accept()
		switch {
		case err == nil:
			delay = 0
			l.start(c, open)
		case l.ends():
			l.acceptWaiting(open)
			return
		case errors.Is(err, net.ErrClosed):
			return
		default:
			delay = l.pause(err, delay)
		}
	}
}

// pause waits after an error that may pass, such as too many open files.
func (l *Listener) pause(err error, delay time.Duration) time.Duration {
	if errors.Is(err, syscall.ECONNABORTED) {
		return 0
	}
	delay = min(max(2*delay, 5*time.Millisecond), time.Second)
	l.logger.Warn("accept failed", "address", l.address, "error", err, "again_in", delay)
	time.Sleep(delay)
	return delay
}

func (l *Listener) start(c *socket.Stream, open func(c net.Conn, n uint64) Conn) {
	l.mu.Lock()
	if l.draining {
		l.mu.Unlock()
		_ = c.Close()
		return
	}
	conn := open(c, l.accepted)
	l.accepted++
	l.conns[conn] = struct{}{}
	l.serving.Add(1)
	l.mu.Unlock()
	if a, ok := conn.(attended); ok && a.Attend(func() { l.over(conn) }) {
		return
	}
	l.door.Await(c, func() { go l.run(conn) })
}

func (l *Listener) run(c Conn) {
	over := func() { l.over(c) }
	if b, ok := c.(beginning); ok {
		b.Begin(over)
		return
	}
	defer over()
	c.Serve()
}

func (l *Listener) over(c Conn) {
	l.forget(c)
	l.serving.Done()
}

func (l *Listener) forget(c Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	l.wake()
}

// full reports whether there is no room. The caller holds mu.
func (l *Listener) full() bool {
	return l.overLimit() && !l.stopping
}

func (l *Listener) overLimit() bool { return l.limit > 0 && len(l.conns)+l.beside >= l.limit }

// wake lets accept go on if there is room. The caller holds mu.
func (l *Listener) wake() {
	if l.room != nil && !l.full() {
		close(l.room)
		l.room = nil
	}
}

func (l *Listener) awaitRoom() {
	l.mu.Lock()
	if !l.full() {
		l.mu.Unlock()
		return
	}
	room := make(chan struct{})
	l.room = room
	l.mu.Unlock()
	<-room
}

// Drain stops the socket and lets what is under way finish. When ctx ends, the
// connections that are left are cut. It returns when none is served any more,
// with how many were cut.
func (l *Listener) Drain(ctx context.Context) (cut int) {
	l.Stop()
	return drain(ctx, &l.serving, l.close)
}

// drain drains what is served; closed lists the connections that are open, of which
// there are no more after the first call.
func drain(ctx context.Context, serving *sync.WaitGroup, closed func() []Conn) (cut int) {
	for _, c := range closed() {
		c.Drain()
	}
	done := make(chan struct{})
	go func() {
		serving.Wait()
		close(done)
	}()
	select {
	case <-done:
		return 0
	case <-ctx.Done():
	}
	left := closed()
	for _, c := range left {
		c.Close()
	}
	<-done
	return len(left)
}

// close turns new connections away and lists those that are open.
func (l *Listener) close() []Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	return list(l.conns)
}

func list(conns map[Conn]struct{}) []Conn {
	open := make([]Conn, 0, len(conns))
	for c := range conns {
		open = append(open, c)
	}
	return open
}
