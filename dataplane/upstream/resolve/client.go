package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// longestLookup bounds a look-up of a name, with all that is tried for it.
const longestLookup = 10 * time.Second

// udpSize is how large a UDP reply may be, in bytes: what passes without being
// cut into fragments, as DNS Flag Day 2020 agreed on.
const udpSize = 1232

// Client asks DNS servers as resolv.conf(5) says. What nsswitch.conf(5) says
// beyond "files dns" is not followed, and neither is mDNS.
//
// It speaks DNS itself since net.Resolver does not tell the TTL of what it finds,
// nor that a name does not exist from that nobody knows.
type Client struct {
	servers []string // host:port, instead of those of resolv.conf
	config  followed[*config]
	hosts   followed[hosts]
	first   atomic.Uint64 // the server that is asked first
}

// ClientOptions say whom to ask. The zero value is ready to use.
type ClientOptions struct {
	Servers    []string // host or host:port, instead of those of resolv.conf
	ResolvConf string   // default /etc/resolv.conf
	Hosts      string   // default /etc/hosts
}

// NewClient makes a client. It reads its files when it is first used, and again
// when they have changed.
func NewClient(o ClientOptions) *Client {
	c := &Client{}
	for _, server := range o.Servers {
		if _, _, err := net.SplitHostPort(server); err != nil {
			server = net.JoinHostPort(strings.Trim(server, "[]"), "53")
		}
		c.servers = append(c.servers, server)
	}
	c.config.path, c.config.parse = orDefault(o.ResolvConf, "/etc/resolv.conf"), parseConfig
	c.hosts.path, c.hosts.parse = orDefault(o.Hosts, "/etc/hosts"), parseHosts
	return c
}

func orDefault(s, absent string) string {
	if s == "" {
		return absent
	}
	return s
}

// Lookup finds the addresses of a name. One that ends in a dot, or has as many
// dots as ndots, is looked up as it is first; the domains of the search list
// follow or come before. Only an answer that there is no such name, or that it
// has no addresses, leads to the next of them: after a failure it could be the
// wrong one that is found.
func (c *Client) Lookup(ctx context.Context, name string) Answers {
	if a, ok := c.hosts.get().known(name); ok {
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, longestLookup)
	defer cancel()
	config := c.config.get()
	var result Answers
	for i, candidate := range config.NameList(name) {
		a := c.both(ctx, config, candidate)
		if i == 0 || decisive(&a) {
			result = a
		}
		if decisive(&a) {
			break
		}
	}
	return result
}

// decisive reports whether no other name is to be tried.
func decisive(a *Answers) bool {
	return len(a[IPv4].Addresses)+len(a[IPv6].Addresses) > 0 || firstError(a) != nil
}

// both asks for both families at once.
func (c *Client) both(ctx context.Context, config *config, name string) (a Answers) {
	var asking sync.WaitGroup
	for family := range a {
		asking.Go(func() { a[family] = c.ask(ctx, config, name, family) })
	}
	asking.Wait()
	return a
}

// ask asks one server after the other until one answers, as often as there are
// to be attempts. It begins with the one that answered last, or, if they are to
// take turns, with the next.
func (c *Client) ask(ctx context.Context, config *config, name string, family int) Answer {
	servers := c.servers
	if len(servers) == 0 {
		servers = config.servers
	}
	first := c.first.Load()
	if config.rotate {
		first = c.first.Add(1)
	}
	var last error
	for i := range max(1, config.Attempts) * len(servers) {
		at := (first + uint64(i)) % uint64(len(servers))
		a, err := c.askServer(ctx, config, servers[at], name, family)
		if err == nil {
			if !config.rotate {
				c.first.Store(at)
			}
			return a
		}
		last = &ServerError{Server: servers[at], Err: err}
		if ctx.Err() != nil {
			break
		}
	}
	return Answer{Err: last}
}

// ServerError is a server that did not answer.
type ServerError struct {
	Server string // host:port
	Err    error
}

func (e *ServerError) Error() string {
	var timed interface{ Timeout() bool }
	var system *os.SyscallError
	switch {
	case errors.As(e.Err, &timed) && timed.Timeout():
		return e.Server + " does not answer"
	case errors.As(e.Err, &system):
		return e.Server + ": " + system.Err.Error()
	}
	return e.Server + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ServerError) Unwrap() error { return e.Err }

// askServer asks a server over UDP, and over TCP if the reply does not fit. One
// that does not know EDNS is asked without it (RFC 6891 section 7).
func (c *Client) askServer(ctx context.Context, config *config, server, name string, family int) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(config.Timeout)*time.Second)
	defer cancel()
	question := new(dns.Msg).SetQuestion(name, types[family])
	question.SetEdns0(udpSize, false)
	network := "udp"
	if config.tcp {
		network = "tcp"
	}
	reply, err := exchange(ctx, network, server, question)
	if err == nil && (reply.Rcode == dns.RcodeFormatError || reply.Rcode == dns.RcodeNotImplemented) {
		question.Extra = nil
		reply, err = exchange(ctx, network, server, question)
	}
	if _, broken := errors.AsType[*dns.Error](err); network == "udp" && (broken || err == nil && reply.Truncated) {
		reply, err = exchange(ctx, "tcp", server, question)
	}
	if err != nil {
		return Answer{}, err
	}
	return read(reply, name, family)
}

// exchange sends a question from a port of its own, so that nobody can guess
// where an answer has to go, and takes the reply to it.
func exchange(ctx context.Context, network, server string, question *dns.Msg) (*dns.Msg, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	deadline, _ := ctx.Deadline()
	client := dns.Client{Timeout: time.Until(deadline), UDPSize: udpSize}
	reply, _, err := client.ExchangeWithConnContext(ctx, question, &dns.Conn{Conn: conn, UDPSize: udpSize})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", network, err)
	}
	return reply, nil
}
