package resolve

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// maxAliases bounds the CNAME records between a name and its addresses.
const maxAliases = 16

// The reasons for which a reply answers nothing.
var (
	errOther    = errors.New("the reply is to another question")
	errReferral = errors.New("the server knows only whom else to ask (is it a resolver?)")
	errAliases  = errors.New("the aliases (CNAME) lead nowhere")
)

// types are the record types by family.
var types = [2]uint16{IPv4: dns.TypeA, IPv6: dns.TypeAAAA}

// read is what a reply to the question for a family of a name says. Another
// server may say something else if it is an error.
func read(reply *dns.Msg, name string, family int) (Answer, error) {
	switch {
	case !reply.Response || len(reply.Question) != 1 || reply.Question[0].Qtype != types[family] ||
		!strings.EqualFold(reply.Question[0].Name, name):
		return Answer{}, errOther
	case reply.Rcode == dns.RcodeNameError:
		return Answer{Missing: true, TTL: negativeTTL(reply)}, nil
	case reply.Rcode != dns.RcodeSuccess:
		return Answer{}, rcodeError(reply.Rcode)
	}
	a, err := collect(reply.Answer, name, family)
	switch {
	case len(a.Addresses) > 0 || err != nil:
		return a, err
	case len(reply.Answer) == 0 && !reply.Authoritative && !reply.RecursionAvailable && !hasSOA(reply):
		return Answer{}, errReferral
	}
	return Answer{TTL: negativeTTL(reply)}, nil
}

// rcodeError is a reply that says that there is no answer.
type rcodeError int

func (e rcodeError) Error() string {
	if text := dns.RcodeToString[int(e)]; text != "" {
		return text
	}
	return fmt.Sprintf("response code %d", int(e))
}

// collect follows the aliases of a name to its addresses, of which there may be
// none. The TTL is the lowest of all records on the way. The error is errAliases.
func collect(records []dns.RR, name string, family int) (a Answer, err error) {
	ttl := uint32(1<<32 - 1)
	for range maxAliases {
		alias := ""
		for _, record := range records {
			if !strings.EqualFold(record.Header().Name, name) {
				continue
			}
			if c, ok := record.(*dns.CNAME); ok {
				alias, ttl = c.Target, min(ttl, c.Hdr.Ttl)
			} else if address, ok := addressOf(record, family); ok {
				a.Addresses, ttl = append(a.Addresses, address), min(ttl, record.Header().Ttl)
			}
		}
		if len(a.Addresses) > 0 {
			a.TTL = seconds(ttl)
			return a, nil
		}
		if alias == "" {
			return a, nil
		}
		name = alias
	}
	return a, errAliases
}

func addressOf(record dns.RR, family int) (netip.Addr, bool) {
	switch r := record.(type) {
	case *dns.A:
		address, ok := netip.AddrFromSlice(r.A)
		return address.Unmap(), ok && family == IPv4
	case *dns.AAAA:
		address, ok := netip.AddrFromSlice(r.AAAA)
		return address, ok && family == IPv6
	}
	return netip.Addr{}, false
}

// seconds is a TTL as a duration. One with its highest bit set is 0 (RFC 2181
// section 8).
func seconds(ttl uint32) time.Duration {
	if ttl > 1<<31-1 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}

func hasSOA(reply *dns.Msg) bool {
	for _, record := range reply.Ns {
		if _, ok := record.(*dns.SOA); ok {
			return true
		}
	}
	return false
}

// negativeTTL is how long it may be believed that there is nothing (RFC 2308
// section 5); 0 if that is not said.
func negativeTTL(reply *dns.Msg) time.Duration {
	for _, record := range reply.Ns {
		if soa, ok := record.(*dns.SOA); ok {
			return min(seconds(soa.Hdr.Ttl), seconds(soa.Minttl))
		}
	}
	return 0
}
