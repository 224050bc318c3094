package certificate

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/certificate/acme"
)

// Options say what a Store works with. The zero value is ready to use.
type Options struct {
	// Folder is where relative paths begin; default the working directory.
	Folder string
	// Issued is where accounts and certificates are kept that authorities gave;
	// default: in memory.
	Issued string
	// Version is that of the program, for the authorities.
	Version string
	// Events hears how certificates fare, in order, on a goroutine of the
	// store's; default: nobody does.
	Events func(Event)
	// Logger gets what is nobody's event; default: nothing is logged.
	Logger *slog.Logger
	// Now is the time; default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store holds the certificates and bundles in use. Its methods may be called
// from any goroutine.
type Store struct {
	options Options
	tickets tickets
	changes atomic.Uint64 // grows when something else is in use than before

	kept       *acme.Storage
	challenges acme.Challenges
	authority  *acme.Client
	attempts   chan attempt // that have ended

	commits chan struct{} // one message: another set was committed
	reloads chan chan struct{}
	stopped context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// guarded by mu
	committed *Set
}

// NewStore starts an empty store. Close must be called.
func NewStore(o Options) *Store {
	s := &Store{
		options:  o.withDefaults(),
		attempts: make(chan attempt),
		commits:  make(chan struct{}, 1),
		reloads:  make(chan chan struct{}),
	}
	s.kept = acme.NewStorage(s.options.Issued)
	s.authority = acme.NewClient(s.kept, &s.challenges, s.options.Version)
	s.committed = newSet(s)
	s.stopped, s.stop = context.WithCancel(context.Background())
	w := newWatcher(s)
	s.running.Go(w.run)
	return s
}

// Close stops the watching and waits for its end. What is in use stays so.
func (s *Store) Close() {
	s.stop()
	s.running.Wait()
}

// Set is the certificates and bundles of one snapshot.
type Set struct {
	store        *Store
	certificates map[string]*Certificate
	bundles      map[string]*Bundle
	wanted       map[*Certificate]*ACME // of those that an authority gives
}

func newSet(s *Store) *Set {
	return &Set{
		store: s, certificates: map[string]*Certificate{}, bundles: map[string]*Bundle{}, wanted: map[*Certificate]*ACME{},
	}
}

// Certificate is the one of that name, or nil.
func (s *Set) Certificate(name string) *Certificate { return s.certificates[name] }

// Bundle is the one of that name, or nil.
func (s *Set) Bundle(name string) *Bundle { return s.bundles[name] }

// SourceError is a source that cannot be used.
type SourceError struct {
	Path string // as in certificates[2].privateKeyFile
	Err  error
}

func (e *SourceError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *SourceError) Unwrap() error { return e.Err }

// Prepare reads what is new. What has the same name and source as in the
// committed set is the same object, and is not read: it has its last good state
// even if its files are broken by now. Nothing needs to be undone if the set is
// not committed.
func (s *Store) Prepare(certificates []Source, bundles []BundleSource) (*Set, []*SourceError) {
	s.mu.Lock()
	old := s.committed
	s.mu.Unlock()
	set := newSet(s)
	var faults []*SourceError
	for i, source := range certificates {
		c := old.certificates[source.Name]
		if c == nil || !c.from(source) {
			c = s.make(source)
			faults = append(faults, c.fault(i)...)
		}
		set.certificates[source.Name] = c
		if source.ACME != nil {
			set.wanted[c] = source.ACME
		}
	}
	for i, source := range bundles {
		b := old.bundles[source.Name]
		if b == nil || !b.same(source.Text) {
			b = newBundle(source)
			b.refresh(s.options.Folder)
			faults = append(faults, b.fault(i)...)
		}
		set.bundles[source.Name] = b
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return set, nil
}

// make makes a certificate with what is there of it now.
func (s *Store) make(source Source) *Certificate {
	if source.ACME != nil {
		return s.newIssued(source)
	}
	c := newCertificate(source)
	c.refresh(s.options.Folder)
	return c
}

// fault is what is wrong with number i of its kind, or nothing.
func (m *material) fault(i int) []*SourceError {
	if m.broken == nil {
		return nil
	}
	part, at := 0, (*PartError)(nil)
	if errors.As(m.broken, &at) {
		part = at.Part
	}
	var path string
	switch {
	case m.kind == KindBundle:
		path = "caBundles[" + strconv.Itoa(i) + "]." + [...]string{"pem", "file"}[m.texts[part].kind()]
	case len(m.texts) == 0:
		path = "certificates[" + strconv.Itoa(i) + "].acme"
	default:
		field := [...]string{"certificate", "privateKey"}[part] + [...]string{"Pem", "File"}[m.texts[part].kind()]
		path = "certificates[" + strconv.Itoa(i) + "]." + field
	}
	return []*SourceError{{Path: path, Err: m.broken}}
}

// kind is 1 for a file.
func (t Text) kind() int {
	if t.File != "" {
		return 1
	}
	return 0
}

// Commit makes a set the one that is watched and spoken of.
func (s *Store) Commit(set *Set) {
	s.mu.Lock()
	s.committed = set
	s.mu.Unlock()
	select {
	case s.commits <- struct{}{}:
	default: // the watcher has not looked at the last one yet
	}
}

// Reload reads all files again and returns when what they say is in use.
func (s *Store) Reload() {
	done := make(chan struct{})
	select {
	case s.reloads <- done:
	case <-s.stopped.Done():
		return
	}
	select {
	case <-done:
	case <-s.stopped.Done():
	}
}

// all lists the committed things.
func (s *Store) all() []*material {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*material, 0, len(s.committed.certificates)+len(s.committed.bundles))
	for _, c := range s.committed.certificates {
		list = append(list, &c.material)
	}
	for _, b := range s.committed.bundles {
		list = append(list, &b.material)
	}
	return list
}
