package upstream

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
)

func sticky(c *snapshot.Cluster) *snapshot.Cluster {
	c.Identity += " sticky"
	c.Affinity = &snapshot.Affinity{Cookie: "hg", TTL: time.Hour}
	return c
}

// returning is a request with the cookie that led to e.
func returning(t *testing.T, e *Endpoint) *Pick {
	t.Helper()
	value, ok := ParseToken(e.AppendToken(nil))
	if !ok {
		t.Fatal("our own token is not understood")
	}
	return &Pick{Sticky: value, HasSticky: true}
}

// Case 6: an unrelated apply, and a restart, lead clients to the same endpoint.
func TestAffinitySurvivesApplies(t *testing.T) {
	for name, policy := range policies {
		r := start(t, Options{})
		config := sticky(balanced(cluster("c", "a:1", "b:1", "c:1"), policy))
		c := apply(t, r, config).Cluster(0)
		b := c.endpoints[1]
		p := returning(t, b)
		next := sticky(balanced(cluster("c", "d:1 5", "c:1", "b:1", "a:1"), policy))
		for _, c := range []*Cluster{c, apply(t, r, next).Cluster(0), apply(t, start(t, Options{}), next).Cluster(0)} {
			for range 20 {
				e, _ := c.Choose(p)
				if e.Address() != "b:1" || !p.BoundTo(e) {
					t.Fatalf("%s: led to %s", name, e.Address())
				}
			}
		}
	}
}

// A client is led elsewhere if its endpoint is not to be had, or was tried.
func TestAffinityYields(t *testing.T) {
	timed(t, func(t *testing.T, n *network, r *Registry, _ events) {
		c := apply(t, r, sticky(checked(cluster("c", "a:1", "b:1")))).Cluster(0)
		a, b := c.endpoints[0], c.endpoints[1]
		p := returning(t, b)
		p.Tried = []*Endpoint{b}
		if e, _ := c.Choose(p); e != a || p.BoundTo(e) {
			t.Error("led to what was tried")
		}
		p.Tried = nil
		n.set("b:1", broken)
		time.Sleep(15 * time.Second)
		if e, _ := c.Choose(p); e != a {
			t.Error("led to what is unhealthy")
		}
		n.set("b:1", okay)
		time.Sleep(15 * time.Second)
		if e, _ := c.Choose(p); e != b {
			t.Error("not led back")
		}
		c = apply(t, r, sticky(checked(cluster("c", "a:1", "b:1 0")))).Cluster(0)
		if e, _ := c.Choose(p); e != a {
			t.Error("led to what is drained")
		}
	})
}

func TestTokens(t *testing.T) {
	c := only(t, Options{}, sticky(cluster("c", "10.0.0.1:80", "10.0.0.2:80")))
	token := string(c.endpoints[0].AppendToken([]byte("hg=")))
	if len(token) != 3+tokenLength || strings.Contains(token, "10.0") || token == string(c.endpoints[1].AppendToken([]byte("hg="))) {
		t.Errorf("token %q", token)
	}
	other := only(t, Options{}, sticky(cluster("other", "10.0.0.1:80")))
	if token == string(other.endpoints[0].AppendToken([]byte("hg="))) {
		t.Error("the token of another cluster is the same")
	}
	for _, bad := range []string{"", "a", "AAAAAAAAAA", "AAAAAAAAAAAA", "AAAAAAAAAA=", "AAAA AAAAAA", "AAAAAAAAAAB", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "AAAA\nAAAAAA"} {
		if value, ok := ParseToken([]byte(bad)); ok {
			t.Errorf("%q is %x", bad, value)
		}
	}
	// A token of nobody leads anywhere.
	if e, _ := c.Choose(&Pick{Sticky: 12345, HasSticky: true}); e == nil {
		t.Error("nobody for an unknown token")
	}
}

func TestTokensDoNotAllocate(t *testing.T) {
	c := only(t, Options{}, sticky(cluster("c", "10.0.0.1:80")))
	allocs := testing.AllocsPerRun(100, func() {
		var room [16]byte
		ParseToken(c.endpoints[0].AppendToken(room[:0]))
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
