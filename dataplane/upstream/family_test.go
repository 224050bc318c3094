package upstream

import (
	"context"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// roads are a network in memory on which each family can be closed: with an error
// at once, or so that nothing comes back.
type roads struct {
	mu     sync.Mutex
	closed map[string]string // "4" or "6": "error" or "hole"
	trials int
}

func (r *roads) set(family, how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = map[string]string{family: how}
}

func (r *roads) dial(ctx context.Context, _, address string) (net.Conn, error) {
	family := "4"
	if strings.HasPrefix(address, "[") {
		family = "6"
	}
	r.mu.Lock()
	r.trials++
	how := r.closed[family] + r.closed["both"]
	r.mu.Unlock()
	switch how {
	case "error":
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ENETUNREACH}
	case "hole":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	near, far := net.Pipe()
	_ = far.Close()
	return near, nil
}

// A family that leads nowhere costs no request, not the first one either and not
// in a panic, and costs an apply a second at most. It has its share from the
// look-up on that finds it reached.
func TestFamilyThatIsNotReached(t *testing.T) {
	for _, tt := range []struct {
		family, how string
		wait        time.Duration
	}{{"6", "error", 0}, {"6", "hole", trialLength}, {"4", "error", 0}} {
		synctest.Test(t, func(t *testing.T) {
			d, n := newDirectory(), &roads{}
			d.set("a", "10.0.0.1 10.0.0.2 2001:db8::1 2001:db8::2 2001:db8::3")
			n.set(tt.family, tt.how)
			r := NewRegistry(Options{Resolve: d.options(), Dial: n.dial})
			defer r.Close()
			began := time.Now()
			c := apply(t, r, named(cluster("c"), "a")).Cluster(0)
			if waited := time.Since(began); waited != tt.wait {
				t.Errorf("%+v: waited %v", tt, waited)
			}
			lost := func(counts map[string]int) (n int) {
				for address, times := range counts {
					if strings.HasPrefix(address, "[") == (tt.family == "6") {
						n += times
					}
				}
				return n
			}
			if counts := picks(t, c, 300); lost(counts) != 0 {
				t.Errorf("%+v: %v", tt, counts)
			}
			why := ""
			for _, e := range c.Status().Endpoints {
				if strings.HasPrefix(e.Address, "[") == (tt.family == "6") {
					why = e.Cause
				}
			}
			if !strings.HasPrefix(why, "not reached: ") {
				t.Errorf("%+v: the cause is %q", tt, why)
			}
			// Others come, of both families.
			d.set("a", "10.0.0.1 10.0.0.7 2001:db8::1 2001:db8::7")
			time.Sleep(6 * time.Second)
			if counts := picks(t, c, 300); lost(counts) != 0 || len(counts) != 2 {
				t.Errorf("%+v, after a change: %v", tt, counts)
			}
			n.set("", "")
			time.Sleep(6 * time.Second)
			if counts := picks(t, c, 300); len(counts) != 4 {
				t.Errorf("%+v, when it is reached again: %v", tt, counts)
			}
			n.mu.Lock()
			tried := n.trials
			n.mu.Unlock()
			time.Sleep(time.Minute)
			if n.trials != tried {
				t.Errorf("%+v: %d trials when all is known", tt, n.trials-tried)
			}
		})
	}
}

// If neither family is reached, that says nothing of either.
func TestNoFamilyIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := newDirectory(), &roads{}
		d.set("a", "10.0.0.1 2001:db8::1")
		n.set("both", "error")
		r := NewRegistry(Options{Resolve: d.options(), Dial: n.dial})
		defer r.Close()
		c := apply(t, r, named(cluster("c"), "a")).Cluster(0)
		if counts := picks(t, c, 300); len(counts) != 2 {
			t.Errorf("%v", counts)
		}
	})
}

// A name with addresses of one family is not tried: nothing could be learnt.
func TestOneFamilyIsNotTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := newDirectory(), &roads{}
		d.set("a", "10.0.0.1 10.0.0.2")
		r := NewRegistry(Options{Resolve: d.options(), Dial: n.dial})
		defer r.Close()
		apply(t, r, named(cluster("c"), "a"))
		time.Sleep(time.Minute)
		if n.trials != 0 {
			t.Errorf("%d trials", n.trials)
		}
	})
}
