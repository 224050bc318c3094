package resolve

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/headgate/headgate/dataplane/upstream/resolve/dnstest"
)

// Aliases that lead in a circle, or to nothing, are no addresses, and take no
// time to speak of.
func TestAliasesThatLeadNowhere(t *testing.T) {
	reply := new(dns.Msg).SetQuestion("a.test.", dns.TypeA)
	reply.Response, reply.RecursionAvailable = true, true
	reply.Answer = []dns.RR{dnstest.Record("a.test. 30 IN CNAME b.test."), dnstest.Record("b.test. 30 IN CNAME a.test.")}
	if _, err := read(reply, "a.test.", IPv4); err != errAliases {
		t.Errorf("a circle: %v", err)
	}
	reply.Answer = reply.Answer[:1]
	if a, err := read(reply, "a.test.", IPv4); err != nil || a.Addresses != nil {
		t.Errorf("to nothing: %+v, %v", a, err)
	}
}

// A TTL with its highest bit set is none.
func TestTTLOutOfRange(t *testing.T) {
	if seconds(1<<31) != 0 || seconds(1<<31-1) == 0 {
		t.Error("not as RFC 2181 section 8 has it")
	}
}

// Whatever a server sends, reading it ends and gives addresses of the family
// that was asked for, or says why not.
func FuzzRead(f *testing.F) {
	reply := new(dns.Msg).SetQuestion("a.test.", dns.TypeAAAA)
	reply.Response = true
	reply.Answer = []dns.RR{dnstest.Record("a.test. 30 IN CNAME b.test."), dnstest.Record("b.test. 30 IN AAAA 2001:db8::1"), dnstest.Record("b.test. 30 IN A 10.0.0.1")}
	reply.Ns = []dns.RR{dnstest.Record("test. 300 IN SOA ns.test. admin.test. 1 3600 600 86400 7")}
	text, err := reply.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	reply.Answer, reply.Rcode = nil, dns.RcodeNameError
	text, _ = reply.Pack()
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		reply := new(dns.Msg)
		if reply.Unpack(text) != nil {
			return
		}
		for family := range types {
			a, err := read(reply, "a.test.", family)
			if err != nil && len(a.Addresses) > 0 {
				t.Fatalf("%+v and %v", a, err)
			}
			for _, address := range a.Addresses {
				if familyOf(address) != family && !address.Is4In6() {
					t.Fatalf("%v is of the other family", address)
				}
			}
		}
	})
}
