package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/upstream/resolve"
)

// directory is DNS in memory: the addresses of names, "" that it fails, and how
// often each was asked for. Records last for a minute.
type directory struct {
	mu    sync.Mutex
	names map[string]string
	asked map[string]int
	slow  time.Duration // how long an answer takes
}

func newDirectory() *directory {
	return &directory{names: map[string]string{}, asked: map[string]int{}}
}

func (d *directory) set(name, addresses string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[name] = addresses
}

func (d *directory) count(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[name]
}

func (d *directory) lookup(ctx context.Context, name string) (a resolve.Answers) {
	d.mu.Lock()
	d.asked[name]++
	text, slow := d.names[name], d.slow
	d.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		text = ""
	}
	if text == "" {
		return resolve.Answers{{Err: errors.New("no answer")}, {Err: errors.New("no answer")}}
	}
	for s := range strings.FieldsSeq(text) {
		address := netip.MustParseAddr(s)
		family := resolve.IPv4
		if address.Is6() {
			family = resolve.IPv6
		}
		a[family].Addresses = append(a[family].Addresses, address)
		a[family].TTL = time.Minute
	}
	return a
}

func (d *directory) options() resolve.Options {
	return resolve.Options{Lookup: d.lookup, Jitter: func() float64 { return 0 }}
}

// named is a cluster whose endpoints are port 80 of a name.
func named(cluster *snapshot.Cluster, name string) *snapshot.Cluster {
	cluster.DNS = &snapshot.DNS{Name: name, Port: 80, Refresh: 5 * time.Second}
	cluster.Identity += " at " + name
	return cluster
}

// resolutions are what was told of names.
type resolutions struct {
	mu   sync.Mutex
	list []string
}

func (r *resolutions) add(v Resolution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("%s %s %v", v.Cluster, v.Name, v.Addresses)
	if v.First {
		text += " first"
	}
	if v.Trouble != "" {
		text += " trouble: " + v.Trouble
	}
	if v.Cause != "" {
		text += " cause: " + v.Cause
	}
	r.list = append(r.list, text)
}

func (r *resolutions) expect(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.list); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	r.list = nil
}

func addressesOf(c *Cluster) (list []string) {
	for _, e := range c.Status().Endpoints {
		list = append(list, e.Address)
	}
	return list
}

func expectAddresses(t *testing.T, c *Cluster, want ...string) {
	t.Helper()
	if got := addressesOf(c); !slices.Equal(got, want) {
		t.Errorf("endpoints %v, want %v", got, want)
	}
}

// Each address of a name is an endpoint as soon as the cluster is; they follow
// the records, and stay when DNS fails.
func TestNameBecomesEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, told := newDirectory(), &resolutions{}
		d.slow = time.Second
		d.set("a", "10.0.0.1 10.0.0.2 2001:db8::1")
		r := NewRegistry(Options{Resolve: d.options(), Resolved: told.add, Dial: (&roads{}).dial})
		defer r.Close()
		c := apply(t, r, named(cluster("c"), "a")).Cluster(0)
		expectAddresses(t, c, "[2001:db8::1]:80", "10.0.0.1:80", "10.0.0.2:80")
		told.expect(t, "c a [[2001:db8::1]:80 10.0.0.1:80 10.0.0.2:80] first")
		if n := picks(t, c, 300); n["10.0.0.1:80"] != 100 || n["10.0.0.2:80"] != 100 {
			t.Errorf("picks %v", n)
		}
		d.set("a", "10.0.0.2 10.0.0.3")
		time.Sleep(7 * time.Second)
		expectAddresses(t, c, "10.0.0.2:80", "10.0.0.3:80")
		told.expect(t, "c a [10.0.0.2:80 10.0.0.3:80] cause: new: 10.0.0.3:80; gone: [2001:db8::1]:80, 10.0.0.1:80")
		if n := picks(t, c, 300); len(n) != 2 || c.Size() != 2 {
			t.Errorf("picks %v of %d", n, c.Size())
		}
		d.set("a", "")
		time.Sleep(time.Hour)
		expectAddresses(t, c, "10.0.0.2:80", "10.0.0.3:80")
		told.expect(t, "c a [10.0.0.2:80 10.0.0.3:80] trouble: no answer cause: no answer")
		d.set("a", "10.0.0.3 10.0.0.4")
		time.Sleep(12 * time.Second)
		told.expect(t, "c a [10.0.0.3:80 10.0.0.4:80] cause: it works again; new: 10.0.0.4:80; gone: 10.0.0.2:80")
		if s := c.Status().Resolution; s.Name != "a" || s.Trouble != "" || s.Next.IsZero() {
			t.Errorf("%+v", s)
		}
	})
}

// A name that is not found does not keep a snapshot from being committed: the
// cluster says that it has no address, until it has one.
func TestNameThatIsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, told := newDirectory(), &resolutions{}
		r := NewRegistry(Options{Resolve: d.options(), Resolved: told.add, Dial: (&roads{}).dial})
		defer r.Close()
		start := time.Now()
		c := apply(t, r, named(cluster("c"), "a")).Cluster(0)
		if e, why := c.Pick(nil); e != nil || why != Unresolved {
			t.Errorf("picked %v, %v", e, why)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v for a failure", waited)
		}
		told.expect(t, "c a [] first trouble: no answer")
		d.set("a", "10.0.0.1")
		time.Sleep(2 * time.Second)
		told.expect(t, "c a [10.0.0.1:80] cause: it works again; new: 10.0.0.1:80")
		picks(t, c, 1)

		// One that nobody answers for is waited for, but not for long.
		d.slow = time.Minute
		start = time.Now()
		g := apply(t, r, named(cluster("c"), "a"), named(cluster("other"), "b"))
		if waited := time.Since(start); waited != lookupPatience {
			t.Errorf("waited %v", waited)
		}
		if e, why := g.Cluster(1).Pick(nil); e != nil || why != Unresolved {
			t.Errorf("picked %v, %v", e, why)
		}
		told.expect(t, "other b [] first trouble: there is no answer yet")
	})
}

// Endpoints that stay keep all they have when others come and go: what is in
// flight, ejections, connections. Those that go finish what they have.
func TestFoundEndpointsKeepTheirState(t *testing.T) {
	d := newDirectory()
	d.set("a", "127.0.0.1 127.0.0.2 127.0.0.3")
	port := netip.MustParseAddrPort(accepting(t)).Port()
	config := named(cluster("c"), "a")
	config.DNS.Port, config.DNS.Refresh = port, 100*time.Millisecond
	seen, changed := make(events, 100), make(chan Resolution, 100)
	c := only(t, Options{
		Resolve: d.options(), Events: seen.add, Resolved: func(r Resolution) { changed <- r },
	}, config)
	<-changed
	endpoint := func(host string) *Endpoint {
		for _, e := range c.members() {
			if strings.HasPrefix(e.Address(), host+":") {
				return e
			}
		}
		return nil
	}
	one, two, three := endpoint("127.0.0.1"), endpoint("127.0.0.2"), endpoint("127.0.0.3")
	fail(two, 5, Reset)
	seen.next(t, Ejected)
	ticket := one.Begin()
	threeTicket := three.Begin()
	conn, err := one.Dial(0)
	must(t, err)
	conn.Release(0)

	d.set("a", "127.0.0.1 127.0.0.2 127.0.0.4")
	<-changed
	if endpoint("127.0.0.1") != one || endpoint("127.0.0.2") != two || endpoint("127.0.0.3") != nil || endpoint("127.0.0.4") == nil {
		t.Fatalf("endpoints %v", addressesOf(c))
	}
	for _, s := range c.Status().Endpoints {
		if strings.HasPrefix(s.Address, "127.0.0.2:") && s.State != StateEjected {
			t.Errorf("%s is %v", s.Address, s.State)
		}
	}
	if one.InFlight() != 1 || one.Idle(0) != conn {
		t.Errorf("%d in flight, or the connection is gone", one.InFlight())
	}
	three.End(threeTicket, Success, 1)
	one.End(ticket, Success, 1)
	if three.InFlight() != 0 || one.InFlight() != 0 {
		t.Error("in flight counts drifted")
	}
	conn.Discard()
}

// New addresses are probed at once, and a snapshot waits for the first probes of
// what DNS finds.
func TestFoundEndpointsAreProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, n := newDirectory(), newNetwork()
		d.slow = time.Second
		d.set("a", "10.0.0.1 10.0.0.2")
		n.set("10.0.0.1:80", okay)
		r := NewRegistry(Options{Resolve: d.options(), Dial: n.dial})
		defer r.Close()
		config := named(checked(cluster("c")), "a")
		config.HealthCheck.UnhealthyThreshold = 1
		c := apply(t, r, config).Cluster(0)
		if s := c.Status().Endpoints; s[0].Health != StateHealthy || s[1].Health != StateUnhealthy {
			t.Errorf("after the apply: %v and %v", s[0].Health, s[1].Health)
		}
		n.set("10.0.0.3:80", okay)
		d.set("a", "10.0.0.1 10.0.0.3")
		time.Sleep(7 * time.Second)
		if s := c.Status().Endpoints; s[0].Health != StateHealthy || s[1].Health != StateHealthy {
			t.Errorf("after a change: %v and %v", s[0].Health, s[1].Health)
		}
		gone := n.count("10.0.0.2:80")
		time.Sleep(time.Minute)
		if n.count("10.0.0.2:80") != gone {
			t.Error("what is gone is still probed")
		}
	})
}

// Clusters with the same name share its look-ups; what nobody uses any more is
// not looked up; and neither an apply nor an abort disturbs what is known.
func TestNamesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, told := newDirectory(), &resolutions{}
		d.set("a", "10.0.0.1")
		r := NewRegistry(Options{Resolve: d.options(), Resolved: told.add})
		defer r.Close()
		both := []*snapshot.Cluster{named(cluster("c"), "a"), named(cluster("d"), "a")}
		both[1].DNS.Port = 81
		g := apply(t, r, both...)
		expectAddresses(t, g.Cluster(0), "10.0.0.1:80")
		expectAddresses(t, g.Cluster(1), "10.0.0.1:81")
		time.Sleep(59 * time.Second)
		if n := d.count("a"); n != 12 {
			t.Errorf("asked %d times in a minute", n)
		}
		// A new view of a cluster has the addresses at once.
		d.slow = time.Hour
		changed := *both[0]
		changed.Identity, changed.MaxRequests = "changed", 7
		start := time.Now()
		g = apply(t, r, &changed, both[1])
		expectAddresses(t, g.Cluster(0), "10.0.0.1:80")
		if time.Since(start) != 0 {
			t.Error("an apply waited for DNS")
		}
		r.Abort(r.Prepare([]*snapshot.Cluster{named(cluster("c"), "other"), both[1]}))
		expectAddresses(t, g.Cluster(0), "10.0.0.1:80")
		told.list = nil
		// One of them is listed from now on.
		g = apply(t, r, cluster("c", "10.0.0.9:80"), both[1])
		expectAddresses(t, g.Cluster(0), "10.0.0.9:80")
		told.expect(t, "c  [] first")
		apply(t, r)
		asked := d.count("a")
		time.Sleep(3 * time.Hour)
		if n := d.count("a"); n != asked {
			t.Errorf("asked %d times more", n-asked)
		}
	})
}

// With every policy, requests go to what was found last, and to all of it.
func TestEachPolicyFollowsDNS(t *testing.T) {
	for name, b := range policies {
		synctest.Test(t, func(t *testing.T) {
			d := newDirectory()
			d.set("a", "10.0.0.1 10.0.0.2")
			r := NewRegistry(Options{Resolve: d.options()})
			defer r.Close()
			config := named(balanced(cluster("c"), b), "a")
			config.Affinity = &snapshot.Affinity{Cookie: "hg"}
			c := apply(t, r, config).Cluster(0)
			requests(t, c, 100)
			leaving := c.members()[0]
			token := leaving.token
			d.set("a", "10.0.0.2 10.0.0.3")
			time.Sleep(6 * time.Second)
			counts := requests(t, c, 300)
			if len(counts) != 2 || counts["10.0.0.2:80"] < 60 || counts["10.0.0.3:80"] < 60 {
				t.Errorf("%s: %v", name, counts)
			}
			if e, _ := c.Choose(&Pick{Sticky: token, HasSticky: true}); e == leaving {
				t.Errorf("%s: a cookie leads to what is gone", name)
			}
		})
	}
}

// Whatever DNS says and whatever is applied meanwhile, the endpoints are the
// addresses that were good last, nothing of those that are gone is left, and no
// request is miscounted.
func TestFoundAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newDirectory()
			r := NewRegistry(Options{Resolve: d.options()})
			defer r.Close()
			var c *Cluster
			revision, good := 0, ""
			var flying []begun
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				switch rapid.SampledFrom([]string{"records", "fail", "apply", "begin", "end"}).Draw(rt, "step") {
				case "records":
					list := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}), 1, 4, rapid.ID).Draw(rt, "addresses")
					slices.Sort(list)
					good = strings.Join(list, " ")
					d.set("a", good)
				case "fail":
					d.set("a", "")
				case "apply":
					revision++
					config := named(balanced(cluster("c"), policies[rapid.SampledFrom([]string{"round robin", "least request", "random"}).Draw(rt, "policy")]), "a")
					config.Identity = fmt.Sprint(revision)
					c = apply(t, r, config).Cluster(0)
				case "begin":
					if c == nil {
						continue
					}
					if e, ticket, why := c.Start(&Pick{}); why == 0 {
						flying = append(flying, begun{e, &ticket})
					} else if len(c.members()) > 0 {
						t.Fatalf("none of %v: %v", addressesOf(c), why)
					}
				case "end":
					if len(flying) > 0 {
						flying[0].End(*flying[0].ticket, Success, 1)
						flying = flying[1:]
					}
				}
				time.Sleep(11 * time.Second)
				synctest.Wait()
				if c == nil {
					good = "" // nobody has looked yet
					d.set("a", "")
					continue
				}
				var want []string
				for address := range strings.FieldsSeq(good) {
					want = append(want, address+":80")
				}
				if got := addressesOf(c); !slices.Equal(got, want) || len(c.group.endpoints) != len(want) {
					t.Fatalf("endpoints %v of %d, want %v", got, len(c.group.endpoints), want)
				}
			}
			for _, a := range flying {
				a.End(*a.ticket, Success, 1)
			}
			for _, a := range flying {
				if a.InFlight() != 0 {
					t.Fatalf("%s: %d in flight", a.Address(), a.InFlight())
				}
			}
		})
	})
}

// members are the endpoints at the moment.
func (c *Cluster) members() []*Endpoint {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	return c.endpoints
}
