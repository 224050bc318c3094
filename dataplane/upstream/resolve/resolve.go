// Package resolve finds the addresses of names by DNS, and keeps them up to date.
// A Name decides when to look up and what to believe; a Client asks; a Resolver
// does both for all names that somebody watches; a File remembers the last good
// addresses for a process that starts when DNS is down.
//
// It knows nothing of clusters or endpoints: who watches a name makes of its
// addresses what it likes.
package resolve

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// maxLookups bounds the look-ups that run at one time.
const maxLookups = 64

// Options say what a Resolver works with. The zero value is ready to use.
type Options struct {
	// Lookup asks for the addresses of a name; default that of a Client.
	Lookup func(ctx context.Context, name string) Answers
	// Kept remembers good addresses; nil: nothing does.
	Kept *File
	// Jitter is in [0,1), for the time of the next look-up; default random.
	Jitter func() float64
}

// Resolver keeps names up to date for as long as somebody watches them. A name
// that several watch is looked up once, as often as the most eager of them wants.
// Its methods may be called from any goroutine.
type Resolver struct {
	options Options
	stopped context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	slots   chan struct{} // one message for each look-up that runs

	mu sync.Mutex
	// guarded by mu
	names map[string]*watched
}

// watched is a name that somebody watches.
type watched struct {
	name string
	wake chan struct{} // one message: it may be due earlier
	end  context.CancelFunc

	// guarded by Resolver.mu
	state   Name
	watches []*Watch
}

// Watch is one who wants to know the addresses of a name.
type Watch struct {
	resolver *Resolver
	name     *watched
	refresh  time.Duration
	notify   func()
}

// NewResolver starts a resolver that watches nothing. Close must be called.
func NewResolver(o Options) *Resolver {
	if o.Lookup == nil {
		o.Lookup = NewClient(ClientOptions{}).Lookup
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	r := &Resolver{options: o, names: map[string]*watched{}, slots: make(chan struct{}, maxLookups)}
	r.stopped, r.stop = context.WithCancel(context.Background())
	return r
}

// Close ends all look-ups and waits until nothing of the resolver runs.
func (r *Resolver) Close() {
	r.stop()
	r.running.Wait()
}

// Watch begins to keep a name up to date, with a look-up each refresh, if it is
// not done already. notify is called after each look-up, on a goroutine of the
// resolver's that holds no lock; what was found, Latest says. It may be called
// once more after Stop.
func (r *Resolver) Watch(name string, refresh time.Duration, notify func()) *Watch {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.names[name]
	if n == nil {
		n = r.begin(name)
	}
	w := &Watch{resolver: r, name: n, refresh: refresh, notify: notify}
	n.watches = append(n.watches, w)
	n.state.Hasten(socket.Now(), refresh)
	n.look()
	return w
}

// begin starts to look a name up. The caller holds mu.
func (r *Resolver) begin(name string) *watched {
	n := &watched{name: name, wake: make(chan struct{}, 1)}
	if r.options.Kept != nil {
		n.state.Restore(r.options.Kept.Addresses(name))
	}
	r.names[name] = n
	var ctx context.Context
	ctx, n.end = context.WithCancel(r.stopped)
	r.running.Go(func() { r.follow(ctx, n) })
	return n
}

func (n *watched) look() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Latest is what is known of the name.
func (w *Watch) Latest() State {
	w.resolver.mu.Lock()
	defer w.resolver.mu.Unlock()
	return w.name.state.State()
}

// Stop ends a watch. The name is forgotten with its last one, but for what was
// kept of it if the resolver has been closed before.
func (w *Watch) Stop() {
	r, n := w.resolver, w.name
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(n.watches, w)
	if i < 0 {
		return
	}
	n.watches = slices.Delete(n.watches, i, i+1)
	if len(n.watches) == 0 {
		n.end()
		delete(r.names, n.name)
		if r.options.Kept != nil && r.stopped.Err() == nil {
			r.options.Kept.Forget(n.name)
		}
	}
}

// follow looks a name up whenever it is due, until ctx ends.
func (r *Resolver) follow(ctx context.Context, n *watched) {
	clock := time.NewTimer(0)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		case <-clock.C:
		}
		if wait := r.due(n); wait > 0 {
			clock.Reset(wait)
			continue
		}
		answers, ok := r.lookup(ctx, n.name)
		if !ok {
			return
		}
		for _, w := range r.observe(n, answers) {
			w.notify()
		}
		clock.Reset(r.due(n))
	}
}

// due is how long there is nothing to do for a name.
func (r *Resolver) due(n *watched) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return n.state.Wait(socket.Now())
}

// lookup looks up when it is its turn; false if ctx ends before there is an
// answer.
func (r *Resolver) lookup(ctx context.Context, name string) (a Answers, ok bool) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return a, false
	}
	defer func() { <-r.slots }()
	a = r.options.Lookup(ctx, name)
	return a, ctx.Err() == nil
}

// observe takes the outcome, and returns who is to be told.
func (r *Resolver) observe(n *watched, a Answers) []*Watch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(n.watches) == 0 {
		return nil
	}
	refresh := n.watches[0].refresh
	for _, w := range n.watches {
		refresh = min(refresh, w.refresh)
	}
	n.state.Observe(socket.Now(), a, refresh, r.options.Jitter())
	if s := n.state.State(); r.options.Kept != nil && s.Trouble == "" {
		r.options.Kept.Keep(n.name, s.Addresses)
	}
	return slices.Clone(n.watches)
}
