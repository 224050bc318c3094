package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// directory answers look-ups from memory and remembers when they came.
type directory struct {
	mu     sync.Mutex
	began  time.Time
	names  map[string]Answers
	asked  []string
	active int
	most   int
	hold   chan struct{} // look-ups wait for it, if there is one
}

func newDirectory() *directory {
	return &directory{began: time.Now(), names: map[string]Answers{}}
}

func (d *directory) set(name string, ttl time.Duration, list ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := Answers{IPv4: {TTL: ttl}}
	for _, text := range list {
		a[IPv4].Addresses = append(a[IPv4].Addresses, netip.MustParseAddr(text))
	}
	d.names[name] = a
}

func (d *directory) fail(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[name] = failed(errors.New("no answer"))
}

func (d *directory) lookup(ctx context.Context, name string) Answers {
	d.mu.Lock()
	d.asked = append(d.asked, fmt.Sprint(name, " ", time.Since(d.began)))
	d.active++
	d.most = max(d.most, d.active)
	a, hold := d.names[name], d.hold
	d.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	d.mu.Lock()
	d.active--
	d.mu.Unlock()
	return a
}

func (d *directory) take() (asked []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked, d.asked = d.asked, nil
	return asked
}

func (d *directory) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := d.take(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("asked %v, want %v", got, want)
	}
}

func exact() float64 { return 0 }

func nobody() {}

// A name is looked up at once and then as often as TTL and refresh want, also by
// several, and no more once nobody watches.
func TestResolverRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory()
		d.set("a", 3*time.Second, "10.0.0.1")
		r := NewResolver(Options{Lookup: d.lookup, Jitter: exact})
		defer r.Close()
		told := 0
		one := r.Watch("a", 5*time.Second, func() { told++ })
		if s := one.Latest(); s.Asked {
			t.Errorf("known before it was asked: %+v", s)
		}
		time.Sleep(7 * time.Second)
		synctest.Wait()
		d.expect(t, "a 0s", "a 3s", "a 6s")
		if s := one.Latest(); told != 3 || len(s.Addresses) != 1 || s.Trouble != "" {
			t.Errorf("told %d times: %+v", told, s)
		}
		// Another one wants it more often, from now on.
		two := r.Watch("a", time.Second, nobody)
		if s := two.Latest(); !s.Asked || len(s.Addresses) != 1 {
			t.Errorf("not known to the second: %+v", s)
		}
		time.Sleep(2500 * time.Millisecond)
		d.expect(t, "a 8s", "a 9s")
		two.Stop()
		two.Stop()
		time.Sleep(4 * time.Second)
		d.expect(t, "a 10s", "a 13s")
		one.Stop()
		time.Sleep(time.Minute)
		d.expect(t)
	})
}

// When DNS fails, the last good addresses stay, and it is tried again.
func TestResolverKeepsLastGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory()
		d.set("a", 0, "10.0.0.1")
		r := NewResolver(Options{Lookup: d.lookup, Jitter: exact})
		defer r.Close()
		w := r.Watch("a", 5*time.Second, nobody)
		time.Sleep(500 * time.Millisecond)
		d.fail("a")
		time.Sleep(5 * time.Second)
		d.expect(t, "a 0s", "a 1s", "a 2s", "a 4s")
		if s := w.Latest(); len(s.Addresses) != 1 || s.Trouble != "no answer" {
			t.Errorf("%+v", s)
		}
		d.set("a", time.Minute, "10.0.0.2")
		time.Sleep(3 * time.Second)
		if s := w.Latest(); len(s.Addresses) != 1 || s.Addresses[0].String() != "10.0.0.2" || s.Trouble != "" {
			t.Errorf("%+v", s)
		}
	})
}

// Very many names are looked up a few at a time, and all of them are.
func TestResolverIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory()
		d.hold = make(chan struct{})
		r := NewResolver(Options{Lookup: d.lookup})
		defer r.Close()
		for i := range 1000 {
			r.Watch(fmt.Sprint("n", i), time.Hour, nobody)
		}
		synctest.Wait()
		if d.most != maxLookups {
			t.Errorf("%d at one time", d.most)
		}
		close(d.hold)
		synctest.Wait()
		if n := len(d.take()); n != 1000 || d.most != maxLookups {
			t.Errorf("%d look-ups, %d at one time", n, d.most)
		}
	})
}

// The times of look-ups drift apart, and none is later than it may be.
func TestResolverJitters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory()
		r := NewResolver(Options{Lookup: d.lookup, Jitter: func() float64 { return 0.5 }})
		defer r.Close()
		d.set("a", time.Hour, "10.0.0.1")
		r.Watch("a", 10*time.Second, nobody)
		time.Sleep(20 * time.Second)
		d.expect(t, "a 0s", "a 9.5s", "a 19s")
	})
}

// Close ends a look-up that hangs.
func TestResolverCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory()
		d.hold = make(chan struct{})
		r := NewResolver(Options{Lookup: d.lookup})
		w := r.Watch("a", time.Second, func() { t.Error("told of it") })
		synctest.Wait()
		r.Close()
		w.Stop()
	})
}
