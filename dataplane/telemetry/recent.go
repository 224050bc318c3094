package telemetry

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
)

// Recent is a request that is over, as the ring and Tap tell it. The query is
// left out, because it may hold secrets; long texts are cut.
type Recent struct {
	Time     time.Time     `json:"time"` // when it began
	Duration time.Duration `json:"duration_ns"`
	Listener string        `json:"listener,omitempty"`
	Client   netip.Addr    `json:"client"`
	Method   string        `json:"method"`
	HTTPS    bool          `json:"https,omitempty"`
	Host     string        `json:"host"`
	Path     string        `json:"path"`
	Route    string        `json:"route,omitempty"`
	Cluster  string        `json:"cluster,omitempty"`
	Endpoint string        `json:"endpoint,omitempty"` // of the last attempt
	Attempts int           `json:"attempts"`
	Tries    []Try         `json:"tries,omitempty"` // the attempts, if there were several
	Status   int           `json:"status"`
	Reason   string        `json:"reason,omitempty"`
	Detail   string        `json:"detail,omitempty"`

	NotRetried string `json:"not_retried,omitempty"` // why a failure was not tried again though the route wants it
	Injected   string `json:"injected,omitempty"`    // what a fault of the route did
	BytesIn    int64  `json:"bytes_in"`
	BytesOut   int64  `json:"bytes_out"`
	TraceID    string `json:"trace_id,omitempty"`
	Sampled    bool   `json:"sampled,omitempty"`
	Snapshot   string `json:"snapshot"`
}

// Try is one attempt of a request that is over.
type Try struct {
	Number   int           `json:"n"` // from 1
	Endpoint string        `json:"endpoint"`
	After    time.Duration `json:"after_ns"` // from the request's first byte
	Duration time.Duration `json:"duration_ns"`
	Outcome  string        `json:"outcome"` // see Attempt.Outcome
	Hedge    bool          `json:"hedge,omitempty"`
}

// tries lists the attempts of an exchange that made several; nil otherwise: the
// usual request allocates nothing.
func (x *Exchange) tries() []Try {
	if x.Tries < 2 {
		return nil
	}
	list := make([]Try, 0, MaxAttempts)
	for n, a := range x.Each {
		list = append(list, Try{
			Number: n, Endpoint: a.Endpoint, Outcome: a.Outcome(), Hedge: a.Hedge,
			After: time.Duration(a.Started - x.Started), Duration: time.Duration(a.Ended - a.Started),
		})
	}
	return list
}

// The lengths that texts are cut to in the ring.
const (
	recentMethod = 16
	recentHost   = 64
	recentPath   = 192
)

// maxRecent bounds the ring whatever the snapshot says: some 500 bytes each.
const maxRecent = 1 << 20

// facts is an exchange without a pointer into a buffer; strings are static or
// belong to a snapshot.
type facts struct {
	started, ended              int64
	bytesIn, bytesOut           int64
	listener, route, cluster    string
	endpoint, reason, detail    string
	snapshot, refused, injected string
	tries                       []Try // never written again
	client                      netip.Addr
	status, attempts            int
	traced, sampled, https      bool
	traceID                     [16]byte
	methodLen, hostLen, pathLen uint8
	method                      [recentMethod]byte
	host                        [recentHost]byte
	path                        [recentPath]byte
}

func (f *facts) fill(v *View, x *Exchange) {
	f.started, f.ended = x.Started, x.Ended
	f.bytesIn, f.bytesOut = x.BytesIn, x.BytesOut
	f.listener, f.reason, f.detail, f.snapshot = x.Listener, x.Reason, x.Detail, v.version
	f.client, f.status, f.attempts, f.https = x.Client, x.Status, x.Tries, x.HTTPS
	f.traced, f.sampled, f.traceID = x.Trace.Rewrite, x.Trace.Sampled, x.Trace.ID
	f.route, f.cluster, f.endpoint = "", "", ""
	if x.Route != nil {
		f.route = x.Route.Name
	}
	if x.Cluster != nil {
		f.cluster = x.Cluster.Name
	}
	if a := x.decisive(); a != nil {
		f.endpoint = a.Endpoint
	}
	f.tries, f.refused, f.injected = x.tries(), x.NotRetried, x.Injected
	f.methodLen = uint8(copy(f.method[:], x.MethodName))
	f.hostLen = uint8(copy(f.host[:], x.Host))
	f.pathLen = uint8(copy(f.path[:], x.Path))
}

func (f *facts) recent() Recent {
	r := Recent{
		Time: socket.At(f.started), Duration: time.Duration(f.ended - f.started),
		Listener: f.listener, Client: f.client, HTTPS: f.https,
		Method: string(f.method[:f.methodLen]), Host: string(f.host[:f.hostLen]), Path: string(f.path[:f.pathLen]),
		Route: f.route, Cluster: f.cluster, Endpoint: f.endpoint, Attempts: f.attempts,
		Status: f.status, Reason: f.reason, Detail: f.detail,
		Tries: f.tries, NotRetried: f.refused, Injected: f.injected,
		BytesIn: f.bytesIn, BytesOut: f.bytesOut, Sampled: f.sampled, Snapshot: f.snapshot,
	}
	if f.traced {
		r.TraceID = string(appendHex(nil, f.traceID[:]))
	}
	return r
}

// ring keeps the latest requests, and hands them to the taps. Each shard has its
// own part, so that cores do not meet.
type ring struct {
	parts atomic.Pointer[[]ringPart] // nil: keeps nothing
	taps  taps
}

type ringPart struct {
	next  atomic.Uint64
	slots []slot
	_     [32]byte
}

type slot struct {
	mu    sync.Mutex
	used  bool
	facts facts
}

func (r *ring) add(v *View, x *Exchange) {
	taps := r.taps.list.Load()
	parts := r.parts.Load()
	if parts == nil {
		if taps != nil {
			var f facts
			f.fill(v, x)
			taps.send(f.recent())
		}
		return
	}
	part := &(*parts)[x.Shard]
	s := &part.slots[(part.next.Add(1)-1)%uint64(len(part.slots))]
	s.mu.Lock()
	s.facts.fill(v, x)
	s.used = true
	s.mu.Unlock()
	if taps != nil {
		var f facts
		f.fill(v, x)
		taps.send(f.recent())
	}
}

// resize makes room for n requests in all and keeps the latest that fit.
func (r *ring) resize(n, shards int) {
	n = min(n, maxRecent)
	if n <= 0 {
		r.parts.Store(nil)
		return
	}
	each := (n + shards - 1) / shards
	old := r.parts.Load()
	if old != nil && len((*old)[0].slots) == each {
		return
	}
	parts := make([]ringPart, shards)
	for i := range parts {
		parts[i].slots = make([]slot, each)
		if old != nil {
			parts[i].take(&(*old)[i])
		}
	}
	r.parts.Store(&parts)
}

// take copies the latest slots of another part, oldest first.
func (p *ringPart) take(old *ringPart) {
	size := uint64(len(old.slots))
	next := old.next.Load()
	count := min(next, size, uint64(len(p.slots)))
	for i := next - count; i != next; i++ {
		from, to := &old.slots[i%size], &p.slots[p.next.Load()]
		from.mu.Lock()
		to.used, to.facts = from.used, from.facts
		from.mu.Unlock()
		p.next.Add(1)
	}
}

// Recent returns at most limit requests that the filter lets pass (nil: all),
// the latest first.
func (r *Recorder) Recent(filter func(*Recent) bool, limit int) []Recent {
	var found []Recent
	parts := r.ring.parts.Load()
	if parts == nil {
		return nil
	}
	for i := range *parts {
		found = append(found, (*parts)[i].latest(filter, limit)...)
	}
	slices.SortFunc(found, func(a, b Recent) int {
		return cmp.Or(b.Time.Add(b.Duration).Compare(a.Time.Add(a.Duration)), b.Time.Compare(a.Time))
	})
	return found[:min(limit, len(found))]
}

func (p *ringPart) latest(filter func(*Recent) bool, limit int) (found []Recent) {
	size := uint64(len(p.slots))
	next := p.next.Load()
	for i := uint64(1); i <= min(next, size) && len(found) < limit; i++ {
		s := &p.slots[(next-i)%size]
		s.mu.Lock()
		used, f := s.used, s.facts
		s.mu.Unlock()
		if !used {
			continue
		}
		if one := f.recent(); filter == nil || filter(&one) {
			found = append(found, one)
		}
	}
	return found
}
