package control

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// defaultPrepareTimeout bounds the warming of a snapshot.
const defaultPrepareTimeout = 60 * time.Second

// ApplierOptions are what an Applier works with. Only Node is needed.
type ApplierOptions struct {
	Node           Node
	Store          *Store        // default: in memory
	Events         *EventLog     // default: a log of its own
	Tracer         trace.Tracer  // default: none
	Logger         *slog.Logger  // default: discards
	PrepareTimeout time.Duration // of Node.Prepare; default 60 s
}

// Request asks for a snapshot to become active.
type Request struct {
	// Snapshot belongs to the Applier from the call on.
	Snapshot *configv1.Snapshot
	// Version replaces the snapshot's own label, unless it is empty.
	Version string
	// Term fences writers: one lower than the highest seen is refused.
	Term uint64
	// BaseDigest must be the active digest; "": whatever is active.
	BaseDigest string
	// ExpectedDigest must be the snapshot's own; "": not checked.
	ExpectedDigest string
	// AllowShrink lets most routes or endpoints go.
	AllowShrink bool
	// Writer says who writes, and Source how it came, such as "push" or "file".
	Writer, Source string
	// Observe is told of each state in order, by the goroutine that called
	// Apply; may be nil. It must not keep or change the update.
	Observe func(*controlv1.StateUpdate)

	patched bool // Snapshot was made of the messages of the active one and a few others
}

// Result is what became active.
type Result struct {
	Info      *controlv1.SnapshotInfo
	Unchanged bool // the digest was active already; nothing was done
	Diff      *controlv1.Diff
	Warnings  []snapshot.Violation
}

// activation is the snapshot that runs. It is never changed.
type activation struct {
	info     *controlv1.SnapshotInfo
	snapshot *snapshot.Snapshot
}

// identity and compiled are nil if a is nil.
func (a *activation) identity() *controlv1.SnapshotInfo {
	if a == nil {
		return nil
	}
	return a.info
}

func (a *activation) compiled() *snapshot.Snapshot {
	if a == nil {
		return nil
	}
	return a.snapshot
}

// Applier decides what is active. It is safe for use by several goroutines.
type Applier struct {
	node           Node
	store          *Store
	events         *EventLog
	tracer         trace.Tracer
	log            *slog.Logger
	prepareTimeout time.Duration

	turn    chan struct{} // holds a token while a snapshot is compiled and admitted, or restored: one at a time
	running sync.WaitGroup
	life    context.Context // ends with Close
	end     context.CancelFunc

	mu       sync.Mutex
	closed   bool
	machine  machine
	ids      ticket
	jobs     map[ticket]*job // admitted and not finished; at most two
	active   *activation     // nil: nothing
	degraded degradations
	// committing: a snapshot is being made live, so that what changes of degraded
	// is published after that; unpublished: something has.
	committing, unpublished bool
}

// NewApplier returns an Applier with nothing active. Close ends it.
func NewApplier(o ApplierOptions) *Applier {
	a := &Applier{
		node: o.Node, store: o.Store, events: o.Events, tracer: o.Tracer, log: o.Logger,
		prepareTimeout: o.PrepareTimeout,
		turn:           make(chan struct{}, 1),
		jobs:           map[ticket]*job{},
	}
	a.fillDefaults()
	a.life, a.end = context.WithCancel(context.Background())
	a.machine.term = a.store.Term()
	a.reportFaults()
	return a
}

func (a *Applier) fillDefaults() {
	if a.store == nil {
		a.store = memoryStore()
	}
	if a.events == nil {
		a.events = NewEventLog("", 0)
	}
	if a.tracer == nil {
		a.tracer = noop.NewTracerProvider().Tracer("")
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.prepareTimeout <= 0 {
		a.prepareTimeout = defaultPrepareTimeout
	}
}

// reportFaults says which files of the store could not be used.
func (a *Applier) reportFaults() {
	for _, f := range a.store.Faults() {
		a.storeTrouble(f.generation(), f)
	}
}

func (a *Applier) storeTrouble(generation uint64, err error) {
	a.log.Error("state directory", "generation", generation, "error", err)
	a.events.Publish(&controlv1.Event{Detail: &controlv1.Event_Store{Store: &controlv1.StoreEvent{
		Generation: generation, Cause: err.Error(),
	}}})
}

// Close gives up what is not active yet and waits until it is undone. The
// active snapshot stays.
func (a *Applier) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.end()
	a.running.Wait()
}

// Active returns what is active, and nil if nothing is. Neither may be changed.
func (a *Applier) Active() (*controlv1.SnapshotInfo, *snapshot.Snapshot) {
	active := a.current()
	return active.identity(), active.compiled()
}

func (a *Applier) current() *activation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.active
}

// Term returns the highest term seen.
func (a *Applier) Term() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.machine.term
}

// Store returns the store.
func (a *Applier) Store() *Store { return a.store }

// Events returns the log that states are published to.
func (a *Applier) Events() *EventLog { return a.events }
