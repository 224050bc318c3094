package resolve

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a DNS server on a port of its own, over UDP and TCP.
type server struct {
	address string

	mu     sync.Mutex
	zone   map[string][]string         // records by question: "a.test. A"
	noEDNS bool                        // who asks with it gets FORMERR
	handle func(*dns.Msg, string) bool // changes a reply over a network; false: it is not sent
	asked  []string                    // questions, with the network
}

func serveDNS(t testing.TB) *server {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: packets.LocalAddr().String(), zone: map[string][]string{}}
	stream, err := net.Listen("tcp", s.address)
	if err != nil {
		_ = packets.Close()
		t.Skipf("the port is taken for TCP: %v", err)
	}
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

func (s *server) over(network string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, question *dns.Msg) {
		reply, send := s.reply(question, network)
		if send {
			_ = w.WriteMsg(reply)
		}
	}
}

// reply answers from the zone. A name without any record does not exist.
func (s *server) reply(question *dns.Msg, network string) (*dns.Msg, bool) {
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
		reply.Answer = append(reply.Answer, record(text))
	}
	if len(reply.Answer) == 0 {
		reply.Ns = append(reply.Ns, record("test. 300 IN SOA ns.test. admin.test. 1 3600 600 86400 7"))
	}
	if s.noEDNS && question.IsEdns0() != nil {
		reply.Rcode, reply.Answer = dns.RcodeFormatError, nil
	}
	if s.handle == nil {
		return reply, true
	}
	return reply, s.handle(reply, network)
}

func record(text string) dns.RR {
	r, err := dns.NewRR(text)
	if err != nil {
		panic(err)
	}
	return r
}

func (s *server) set(question string, records ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zone[question] = records
}

// questions are those asked so far.
func (s *server) questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

// spoil has replies changed.
func (s *server) spoil(handle func(reply *dns.Msg, network string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handle = handle
}
