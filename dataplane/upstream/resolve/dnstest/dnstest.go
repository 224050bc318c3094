// Package dnstest is a DNS server for tests: a zone in memory, on a port of
// loopback, over UDP and TCP.
package dnstest

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// Server is a DNS server. A name without any record does not exist.
type Server struct {
	Address string // host:port

	mu     sync.Mutex
	zone   map[string][]string         // records by question: "a.test. A"
	noEDNS bool                        // who asks with it gets FORMERR
	handle func(*dns.Msg, string) bool // changes a reply over a network; false: it is not sent
	asked  []string                    // questions, with the network
}

// Serve starts a server that ends with the test.
func Serve(t testing.TB) *Server {
	t.Helper()
	packets, stream := listen(t)
	s := &Server{Address: packets.LocalAddr().String(), zone: map[string][]string{}}
	var ready sync.WaitGroup
	ready.Add(2)
	running := [2]*dns.Server{
		{PacketConn: packets, Handler: s.over("udp"), NotifyStartedFunc: ready.Done},
		{Listener: stream, Handler: s.over("tcp"), NotifyStartedFunc: ready.Done},
	}
	var serving sync.WaitGroup
	for _, one := range running {
		serving.Go(func() { _ = one.ActivateAndServe() })
	}
	ready.Wait()
	t.Cleanup(func() {
		for _, one := range running {
			_ = one.Shutdown()
		}
		serving.Wait()
	})
	return s
}

// listen binds a port that is free for both UDP and TCP.
func listen(t testing.TB) (net.PacketConn, net.Listener) {
	t.Helper()
	var config net.ListenConfig
	for range 20 {
		packets, err := config.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stream, err := config.Listen(t.Context(), "tcp", packets.LocalAddr().String())
		if err == nil {
			return packets, stream
		}
		_ = packets.Close()
	}
	t.Fatal("no port is free for both UDP and TCP")
	return nil, nil
}

func (s *Server) over(network string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, question *dns.Msg) {
		reply, send := s.reply(question, network)
		if send {
			_ = w.WriteMsg(reply)
		}
	}
}

// reply answers from the zone.
func (s *Server) reply(question *dns.Msg, network string) (*dns.Msg, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := question.Question[0]
	key := strings.ToLower(q.Name) + " " + dns.TypeToString[q.Qtype]
	s.asked = append(s.asked, key+" "+network)
	reply := new(dns.Msg).SetReply(question)
	reply.RecursionAvailable = true
	exists := false
	for k := range s.zone {
		exists = exists || strings.HasPrefix(k, strings.ToLower(q.Name)+" ")
	}
	if !exists {
		reply.Rcode = dns.RcodeNameError
	}
	for _, text := range s.zone[key] {
		reply.Answer = append(reply.Answer, Record(text))
	}
	if len(reply.Answer) == 0 {
		reply.Ns = append(reply.Ns, Record("test. 300 IN SOA ns.test. admin.test. 1 3600 600 86400 7"))
	}
	if s.noEDNS && question.IsEdns0() != nil {
		reply.Rcode, reply.Answer = dns.RcodeFormatError, nil
	}
	if s.handle == nil {
		return reply, true
	}
	return reply, s.handle(reply, network)
}

// Record reads a resource record, as a zone file has it.
func Record(text string) dns.RR {
	r, err := dns.NewRR(text)
	if err != nil {
		panic(err)
	}
	return r
}

// Set replaces the records that answer a question such as "a.test. A".
func (s *Server) Set(question string, records ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zone[question] = records
}

// Questions are those asked so far, with the network: "a.test. A udp".
func (s *Server) Questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

// Spoil has each reply changed before it goes out over a network; false: it does
// not.
func (s *Server) Spoil(handle func(reply *dns.Msg, network string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handle = handle
}

// RefuseEDNS has the server behave as one that does not know EDNS.
func (s *Server) RefuseEDNS() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noEDNS = true
}
