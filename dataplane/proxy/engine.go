// Package proxy carries one exchange from its first byte in to its last byte
// out: it reads a request, finds its route, makes attempts on the endpoints of
// a cluster and relays the answer. It owns nothing that outlives an exchange
// but the connection it came over; listeners, clusters and recording belong to
// others. It never sees a configuration message, only the compiled snapshot.
//
// A connection of HTTP/1.1, in clear or over TLS, is served by the loop of its core, on
// a coroutine: it reads from the client, writes upstream, waits for the answer and
// writes it back (socket.Loop). What has to wait for anything but these two sockets
// steps aside first, to a goroutine of its own: the loop's others would wait too. A
// handshake has a goroutine. Another is made only while a request body is streamed or a
// tunnel is open. A connection of HTTP/2 has one that reads, and its streams await the
// answers of upstreams of HTTP/1 in the loop too.
package proxy

import (
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/dataplane/filter/fault"
	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
	"github.com/headgate/headgate/dataplane/upstream/balance"
)

// Engine serves connections with whatever generation is live.
type Engine struct {
	logger  *slog.Logger
	crew    *socket.Crew
	answers func(path []byte) []byte // nil: none
	live    atomic.Pointer[lineup]

	looping sync.Mutex // held while loops are made or closed
	loops   []atomic.Pointer[socket.Loop]
	closed  bool // guarded by looping

	lookouts lookouts

	branches branches
	swapping sync.Mutex // held while live is replaced
}

// lineup is the generation that counts and, by slot, the last one of each
// listener that is not in it: a connection that came over such a listener is
// served to its end as if the listener were still there. It is never written
// after it was made.
type lineup struct {
	current *Generation
	last    []*Generation // nil: the slot is in current, or free
}

// New makes an engine in which nothing is live yet: every request is refused
// with 503 until Swap.
func New(logger *slog.Logger) *Engine {
	e := &Engine{logger: logger, crew: socket.NewCrew(runtime.GOMAXPROCS(0)), loops: make([]atomic.Pointer[socket.Loop], runtime.GOMAXPROCS(0))}
	e.live.Store(&lineup{current: &Generation{}})
	return e
}

// Answer gives the answers to paths that come before every route on listeners in
// clear text: what authorities ask for. nil is no answer; the path is normalized.
// It is called before the first connection.
func (e *Engine) Answer(answers func(path []byte) []byte) { e.answers = answers }

// Close lets go of what is kept for connections to come; those that there are go
// on. It ends what requests have left behind, copies for mirrors and attempts that
// have lost, and waits for that, for no longer than connecting may take.
func (e *Engine) Close() {
	e.crew.Close()
	e.closeLoops()
	e.branches.close()
}

// Swap makes a generation live. Requests that began before keep theirs.
func (e *Engine) Swap(g *Generation) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	old := e.live.Load()
	next := &lineup{current: g, last: make([]*Generation, max(len(old.last), len(old.current.sites)))}
	for slot := range next.last {
		if last := old.of(slot); g.site(slot) == nil && last.site(slot) != nil {
			next.last[slot] = last
		}
	}
	e.live.Store(next)
}

// Forget lets go of what is kept for a listener that is gone, once its last
// connection is closed.
func (e *Engine) Forget(slot int) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	old := e.live.Load()
	if slot >= len(old.last) {
		return
	}
	next := &lineup{current: old.current, last: slices.Clone(old.last)}
	next.last[slot] = nil
	e.live.Store(next)
}

// Live is the generation that new requests take.
func (e *Engine) Live() *Generation { return e.live.Load().current }

// of is the generation for the requests on a listener.
func (l *lineup) of(slot int) *Generation {
	if slot < len(l.last) && l.last[slot] != nil {
		return l.last[slot]
	}
	return l.current
}

// Generation is one snapshot with the live things that it refers to. It is
// immutable; an exchange holds the one that it began under.
type Generation struct {
	Snapshot *snapshot.Snapshot
	View     *telemetry.View

	routes []routeState // by snapshot.Route.Index
	sites  []*site      // by the slot of a listener; nil: not in this snapshot
}

// site is what a generation says of one listener.
type site struct {
	listener    *snapshot.Listener
	limits      http1.Limits
	alternative []byte // value of Alt-Svc, nil: there is none
}

// Place is where a listener is.
type Place struct {
	Slot     int
	QUICPort int // on which HTTP/3 is served, 0: it is not
}

// routeState is a route with its live clusters and its edits prepared.
type routeState struct {
	route    *snapshot.Route
	clusters []*upstream.Cluster // by index in Forward.Backends
	split    *split              // over Forward.Backends; nil if there is one
	fault    *fault.Fault        // nil: none
	mirror   *mirrorTo           // nil: none
	request  edits
	response edits
	prompt   bool // see promptly
}

// NewGeneration joins a snapshot with its live clusters. clusters are by
// snapshot.Cluster.Index; places are those of the listeners by their index in the
// snapshot. prev is the generation before, or nil: the position in the
// split of a route that has the same weights is kept.
func NewGeneration(s *snapshot.Snapshot, clusters []*upstream.Cluster, view *telemetry.View, places []Place, prev *Generation) *Generation {
	g := &Generation{Snapshot: s, View: view, routes: make([]routeState, len(s.Routes))}
	before := prev.splits()
	for i, r := range s.Routes {
		g.routes[i] = newRouteState(r, clusters, before)
	}
	for i, l := range s.Listeners {
		for len(g.sites) <= places[i].Slot {
			g.sites = append(g.sites, nil)
		}
		g.sites[places[i].Slot] = &site{alternative: alternative(places[i].QUICPort), listener: l, limits: http1.Limits{
			HeadBytes:   l.MaxHeaderBytes,
			Fields:      l.MaxHeaders,
			TargetBytes: l.MaxTargetBytes,
		}}
	}
	return g
}

// splits lists the routes of a generation that share between backends.
func (g *Generation) splits() map[string]*routeState {
	found := map[string]*routeState{}
	if g == nil {
		return found
	}
	for i := range g.routes {
		if g.routes[i].split != nil {
			found[g.routes[i].route.Name] = &g.routes[i]
		}
	}
	return found
}

func newRouteState(r *snapshot.Route, clusters []*upstream.Cluster, before map[string]*routeState) routeState {
	state := routeState{
		route:    r,
		request:  newEdits(&r.RequestHeaders),
		response: newEdits(&r.ResponseHeaders),
		fault:    newFault(r.Fault),
		prompt:   promptly(r),
	}
	if r.Forward == nil {
		return state
	}
	state.mirror = newMirror(r.Forward.Mirror, clusters)
	weights := make([]int, len(r.Forward.Backends))
	for i, b := range r.Forward.Backends {
		state.clusters = append(state.clusters, clusters[b.Cluster.Index])
		weights[i] = b.Weight
	}
	if len(weights) == 1 {
		return state
	}
	if old := before[r.Name]; old != nil && sameSplit(old.route.Forward, r.Forward) {
		state.split = old.split
	} else {
		state.split = &split{sequence: balance.Sequence(weights)}
	}
	return state
}

// sameSplit reports whether two forwards share in the same way.
func sameSplit(a, b *snapshot.Forward) bool {
	if a == nil || len(a.Backends) != len(b.Backends) {
		return false
	}
	for i := range a.Backends {
		if a.Backends[i].Weight != b.Backends[i].Weight || a.Backends[i].Cluster.Name != b.Backends[i].Cluster.Name {
			return false
		}
	}
	return true
}

// site is what the generation says of a slot, or nil.
func (g *Generation) site(slot int) *site {
	if slot >= len(g.sites) {
		return nil
	}
	return g.sites[slot]
}

// cluster picks the cluster that the next request goes to.
func (r *routeState) cluster() *upstream.Cluster {
	if r.split == nil {
		return r.clusters[0]
	}
	s := r.split.sequence
	return r.clusters[s[r.split.at.Next(len(s))]]
}

// split shares requests between backends by weight, smoothly: 3 to 1 is
// three, one, three, one in the same order for ever.
type split struct {
	sequence []int32
	at       balance.Position
}
