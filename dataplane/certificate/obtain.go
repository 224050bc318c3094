package certificate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headgate/headgate/dataplane/certificate/acme"
)

// maxAttempts bounds the attempts at a time; the others wait for their turn.
const maxAttempts = 8

// jitter is a number from 0 to 1.
func jitter() float64 { return rand.Float64() }

// attend asks for the certificates whose time has come, and leaves off asking
// for those that are not wanted any more.
func (w *watcher) attend() {
	w.store.mu.Lock()
	set := w.store.committed
	w.store.mu.Unlock()
	for c, cancel := range w.asked {
		if a := set.wanted[c]; a == nil || !a.Used {
			cancel()
		}
	}
	now := w.store.options.Now()
	byName := slices.SortedFunc(maps.Keys(set.wanted), func(a, b *Certificate) int { return cmp.Compare(a.name, b.name) })
	for _, c := range byName {
		want := set.wanted[c]
		if !want.Used {
			c.lacks = ""
			continue
		}
		if c.lacks == "" && !c.issued.given.Load() {
			c.lacks = "is being asked for at " + want.directory()
		}
		by := set.way(want)
		if w.asked[c] == nil && len(w.asked) < maxAttempts && c.issued.due(now, by) {
			w.ask(c, want, by)
		}
	}
}

// way is how a certificate would be asked for now.
func (s *Set) way(want *ACME) way {
	by := way{http: want.HTTP, alpn: want.ALPN}
	if b := s.bundles[want.Bundle]; b != nil {
		by.roots = b.Current()
	}
	return by
}

// ask begins an attempt.
func (w *watcher) ask(c *Certificate, want *ACME, by way) {
	if !w.store.kept.Lasting() && !w.warned {
		w.warned = true
		w.store.options.Logger.Warn("certificates of authorities are kept in memory: without a state directory they are obtained anew at each start, and authorities limit how often that may be")
	}
	c.issued.asked = by
	order := acme.Order{Directory: want.directory(), Email: want.Email, Domains: want.Domains, HTTP: by.http, ALPN: by.alpn}
	if by.roots != nil {
		order.Roots = by.roots.Pool
	}
	ctx, cancel := context.WithCancel(w.store.stopped)
	w.asked[c] = cancel
	w.store.running.Go(func() {
		defer cancel()
		a := w.store.obtain(ctx, c, order)
		select {
		case w.store.attempts <- a:
		case <-w.store.stopped.Done():
		}
	})
}

// hasten has what failed asked for again at once: somebody may have mended it.
func (w *watcher) hasten() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for c := range w.store.committed.wanted {
		if c.issued.schedule.Failing() {
			c.issued.schedule = acme.Schedule{}
		}
	}
}

// settle takes in how an attempt ended.
func (w *watcher) settle(a attempt) {
	delete(w.asked, a.certificate)
	w.store.mu.Lock()
	want := w.store.committed.wanted[a.certificate]
	w.store.mu.Unlock()
	if want == nil || !want.Used || errors.Is(a.err, context.Canceled) {
		return // what was given is kept all the same
	}
	c, now := a.certificate, w.store.options.Now()
	if a.err != nil {
		c.issued.schedule.Failed(now, jitter())
		c.lacks = fmt.Sprintf("cannot be obtained from %s: %v; the next attempt is at %s",
			want.directory(), a.err, c.issued.schedule.Next().UTC().Format(time.DateTime))
		return
	}
	c.hold(a.pair)
	c.issued.schedule.Obtained(now, a.pair.Leaf.NotBefore, a.pair.Leaf.NotAfter, jitter())
	w.store.changes.Add(1)
	c.said = c.judge(now)
	e := Event{
		Kind: c.kind, Name: c.name, Healthy: true, Obtained: true, Expires: c.expires,
		Cause: fmt.Sprintf("was obtained from %s and expires on %s", want.directory(), c.expires.UTC().Format(time.DateTime)),
	}
	if a.unkept != nil {
		e.Cause += fmt.Sprintf("; it is lost when the process ends, for it could not be kept: %v", a.unkept)
	}
	w.store.options.Events(e)
}

// prune removes what is kept and of no use.
func (w *watcher) prune() {
	w.store.mu.Lock()
	set := w.store.committed
	w.store.mu.Unlock()
	used := map[string]bool{}
	for c := range set.wanted {
		used[c.issued.name] = true
	}
	if err := w.store.kept.Prune(used, w.store.options.Now()); err != nil {
		w.store.options.Logger.Warn("certificates that nobody uses could not be removed", "error", err)
	}
}
