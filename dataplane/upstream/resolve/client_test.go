package resolve

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/headgate/headgate/dataplane/upstream/resolve/dnstest"
)

// asking is a client of some servers, with a resolv.conf and a hosts file.
func asking(t *testing.T, conf, hosts string, servers ...*dnstest.Server) *Client {
	t.Helper()
	folder := t.TempDir()
	o := ClientOptions{ResolvConf: filepath.Join(folder, "resolv.conf"), Hosts: filepath.Join(folder, "hosts")}
	for path, text := range map[string]string{o.ResolvConf: conf, o.Hosts: hosts} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		o.Servers = append(o.Servers, s.Address)
	}
	return NewClient(o)
}

// said is what a look-up found, in words.
func said(a Answers) string {
	var parts []string
	for i, name := range []string{"A", "AAAA"} {
		switch {
		case a[i].Err != nil:
			parts = append(parts, name+" failed: "+a[i].Err.Error())
		case a[i].Missing:
			parts = append(parts, fmt.Sprintf("%s missing %v", name, a[i].TTL))
		default:
			parts = append(parts, fmt.Sprintf("%s %v %v", name, a[i].Addresses, a[i].TTL))
		}
	}
	return strings.Join(parts, ", ")
}

func want(t *testing.T, a Answers, text string) {
	t.Helper()
	if got := said(a); got != text {
		t.Errorf("found %s\nwant  %s", got, text)
	}
}

func TestLookup(t *testing.T) {
	s := dnstest.Serve(t)
	s.Set("users.test. A", "users.test. 30 IN A 10.0.0.1", "users.test. 20 IN A 10.0.0.2")
	s.Set("users.test. AAAA", "users.test. 40 IN AAAA 2001:db8::1")
	s.Set("four.test. A", "four.test. 30 IN A 10.0.0.4")
	s.Set("alias.test. A", "alias.test. 9 IN CNAME Next.test.", "next.test. 5 IN CNAME users.test.", "users.test. 30 IN A 10.0.0.1", "other.test. 1 IN A 10.9.9.9")
	s.Set("alias.test. AAAA", "alias.test. 9 IN CNAME next.test.")
	c := asking(t, "", "", s)
	want(t, c.Lookup(t.Context(), "users.test"), "A [10.0.0.1 10.0.0.2] 20s, AAAA [2001:db8::1] 40s")
	want(t, c.Lookup(t.Context(), "USERS.test."), "A [10.0.0.1 10.0.0.2] 20s, AAAA [2001:db8::1] 40s")
	want(t, c.Lookup(t.Context(), "four.test"), "A [10.0.0.4] 30s, AAAA [] 7s")
	want(t, c.Lookup(t.Context(), "alias.test"), "A [10.0.0.1] 5s, AAAA [] 0s")
	want(t, c.Lookup(t.Context(), "nobody.test"), "A missing 7s, AAAA missing 7s")
}

// What is known without asking is not asked for.
func TestLookupWithoutServers(t *testing.T) {
	s := dnstest.Serve(t)
	c := asking(t, "", "10.0.0.9 db Db.Test # the database\n2001:db8::9\tdb\n# 10.0.0.8 db\nbad db\n", s)
	want(t, c.Lookup(t.Context(), "DB"), "A [10.0.0.9] 0s, AAAA [2001:db8::9] 0s")
	want(t, c.Lookup(t.Context(), "db.test."), "A [10.0.0.9] 0s, AAAA [] 0s")
	want(t, c.Lookup(t.Context(), "localhost"), "A [127.0.0.1] 0s, AAAA [::1] 0s")
	want(t, c.Lookup(t.Context(), "192.0.2.7"), "A [192.0.2.7] 0s, AAAA [] 0s")
	if q := s.Questions(); len(q) != 0 {
		t.Errorf("asked %v", q)
	}
}

// The search list is followed as resolv.conf(5) has it, but not after a failure:
// what is found then could be somebody else.
func TestSearchList(t *testing.T) {
	s := dnstest.Serve(t)
	s.Set("db.one.test. A", "db.one.test. 30 IN A 10.0.0.1")
	s.Set("db.eu.two.test. A", "db.eu.two.test. 30 IN A 10.0.0.2")
	c := asking(t, "search one.test two.test\noptions ndots:1", "", s)
	want(t, c.Lookup(t.Context(), "db"), "A [10.0.0.1] 30s, AAAA [] 7s")
	want(t, c.Lookup(t.Context(), "db.eu"), "A [10.0.0.2] 30s, AAAA [] 7s")
	want(t, c.Lookup(t.Context(), "db."), "A missing 7s, AAAA missing 7s")
	want(t, c.Lookup(t.Context(), "no.where"), "A missing 7s, AAAA missing 7s")
	var tried []string
	for _, q := range s.Questions() {
		if name, ok := strings.CutSuffix(q, " A udp"); ok {
			tried = append(tried, name)
		}
	}
	if got := strings.Join(tried, " "); got != "db.one.test. db.eu. db.eu.one.test. db.eu.two.test. db. no.where. no.where.one.test. no.where.two.test." {
		t.Errorf("tried %s", got)
	}
	s.Spoil(func(reply *dns.Msg, _ string) bool {
		if strings.HasPrefix(reply.Question[0].Name, "db.eu.one") {
			reply.Rcode = dns.RcodeServerFailure
		}
		return true
	})
	if a := c.Lookup(t.Context(), "db.eu"); a[IPv4].Err == nil {
		t.Errorf("after a failure: %s", said(a))
	}
}

// A reply that does not fit into a packet comes over TCP, also from a server that
// sends more than it was told to.
func TestLongReplies(t *testing.T) {
	s := dnstest.Serve(t)
	var records []string
	for i := range 200 {
		records = append(records, fmt.Sprintf("many.test. 30 IN A 10.0.0.%d", i+1))
	}
	s.Set("many.test. A", records...)
	c := asking(t, "", "", s)
	for name, spoil := range map[string]func(*dns.Msg, string) bool{
		"truncated": func(reply *dns.Msg, network string) bool {
			if network == "udp" {
				reply.Truncate(udpSize)
			}
			return true
		},
		"too long": nil,
	} {
		s.Spoil(spoil)
		if a := c.Lookup(t.Context(), "many.test"); len(a[IPv4].Addresses) != 200 || a[IPv4].Err != nil {
			t.Errorf("%s: %d addresses, %v", name, len(a[IPv4].Addresses), a[IPv4].Err)
		}
	}
	if !slices.Contains(s.Questions(), "many.test. A tcp") {
		t.Error("not asked over TCP")
	}
	tcp := asking(t, "options use-vc", "", s)
	before := len(s.Questions())
	tcp.Lookup(t.Context(), "many.test")
	for _, q := range s.Questions()[before:] {
		if !strings.HasSuffix(q, " tcp") {
			t.Errorf("asked %s", q)
		}
	}
}

// A server that does not know EDNS is asked without it.
func TestWithoutEDNS(t *testing.T) {
	s := dnstest.Serve(t)
	s.Set("old.test. A", "old.test. 30 IN A 10.0.0.1")
	s.RefuseEDNS()
	want(t, asking(t, "", "", s).Lookup(t.Context(), "old.test"), "A [10.0.0.1] 30s, AAAA [] 7s")
}

// The next server is asked when one is of no use, and then stays the first.
func TestServersInTurn(t *testing.T) {
	bad, good := dnstest.Serve(t), dnstest.Serve(t)
	good.Set("a.test. A", "a.test. 30 IN A 10.0.0.1")
	for i, spoil := range []func(*dns.Msg, string) bool{
		func(reply *dns.Msg, _ string) bool { reply.Rcode = dns.RcodeServerFailure; return true },
		func(reply *dns.Msg, _ string) bool { reply.Rcode = dns.RcodeRefused; return true },
		func(reply *dns.Msg, _ string) bool { reply.Question[0].Name = "b.test."; return true },
		func(reply *dns.Msg, _ string) bool {
			reply.Rcode, reply.Ns, reply.RecursionAvailable = dns.RcodeSuccess, nil, false
			return true
		},
		func(*dns.Msg, string) bool { return false },
	} {
		bad.Spoil(spoil)
		c := asking(t, "options timeout:1", "", bad, good)
		want(t, c.Lookup(t.Context(), "a.test"), "A [10.0.0.1] 30s, AAAA [] 7s")
		before := len(bad.Questions())
		want(t, c.Lookup(t.Context(), "a.test"), "A [10.0.0.1] 30s, AAAA [] 7s")
		if len(bad.Questions()) != before {
			t.Errorf("fault %d: the bad one was asked again", i)
		}
	}
}

// What is wrong is said with the server's address.
func TestFailures(t *testing.T) {
	s := dnstest.Serve(t)
	s.Spoil(func(reply *dns.Msg, _ string) bool { reply.Rcode = dns.RcodeServerFailure; return true })
	want(t, asking(t, "", "", s).Lookup(t.Context(), "a.test"),
		fmt.Sprintf("A failed: %s: SERVFAIL, AAAA failed: %[1]s: SERVFAIL", s.Address))

	nobody, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := nobody.LocalAddr().String()
	_ = nobody.Close()
	c := NewClient(ClientOptions{Servers: []string{gone}, ResolvConf: os.DevNull, Hosts: os.DevNull})
	want(t, c.Lookup(t.Context(), "a.test"),
		fmt.Sprintf("A failed: %s: connection refused, AAAA failed: %[1]s: connection refused", gone))

	silent := dnstest.Serve(t)
	silent.Spoil(func(*dns.Msg, string) bool { return false })
	want(t, asking(t, "options timeout:1 attempts:1", "", silent).Lookup(t.Context(), "a.test"),
		fmt.Sprintf("A failed: %s does not answer, AAAA failed: %[1]s does not answer", silent.Address))
}

// A look-up ends with its context, whatever servers do.
func TestLookupIsCancelled(t *testing.T) {
	s := dnstest.Serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.Spoil(func(*dns.Msg, string) bool { cancel(); return false })
	start := time.Now()
	if a := asking(t, "options timeout:30", "", s).Lookup(ctx, "a.test"); a[IPv4].Err == nil {
		t.Error("no error")
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestResolvConf(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "[127.0.0.1:53 [::1]:53] [] 1 5 2 rotate:false tcp:false"},
		{"nameserver 10.0.0.1\nnameserver fe80::1%eth0\n", "[10.0.0.1:53 [fe80::1%eth0]:53] [] 1 5 2 rotate:false tcp:false"},
		{"nameserver 1.0.0.1\nnameserver 2.0.0.1\nnameserver 3.0.0.1\nnameserver 4.0.0.1", "[1.0.0.1:53 2.0.0.1:53 3.0.0.1:53] [] 1 5 2 rotate:false tcp:false"},
		{"nameserver 10.0.0.1\nsearch a.test b.test\noptions ndots:5 timeout:1 attempts:3 rotate use-vc", "[10.0.0.1:53] [a.test b.test] 5 1 3 rotate:true tcp:true"},
		{"nameserver\nnonsense\noptions\nnameserver 10.0.0.1", "[10.0.0.1:53] [] 1 5 2 rotate:false tcp:false"},
	} {
		c := parseConfig(tt.text)
		if got := fmt.Sprintf("%v %v %d %d %d rotate:%v tcp:%v", c.servers, c.Search, c.Ndots, c.Timeout, c.Attempts, c.rotate, c.tcp); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.text, got, tt.want)
		}
	}
}
