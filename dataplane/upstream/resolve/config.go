package resolve

import (
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// lookEvery is how often a file is looked at for changes.
const lookEvery = 5 * time.Second

// maxServers bounds the servers of resolv.conf, as resolv.conf(5) does.
const maxServers = 3

// config is what resolv.conf(5) says, as far as it is followed: nameserver,
// domain, search, and of the options ndots, timeout, attempts, rotate and use-vc.
type config struct {
	*dns.ClientConfig
	servers []string // host:port
	rotate  bool
	tcp     bool // use-vc
}

// parseConfig reads the text of a resolv.conf. It takes anything: what it cannot
// read is as if it were not there.
func parseConfig(text string) *config {
	// A reader of a string does not fail, and nothing else does in there.
	parsed, _ := dns.ClientConfigFromReader(strings.NewReader(text))
	c := &config{ClientConfig: parsed}
	for _, server := range parsed.Servers[:min(len(parsed.Servers), maxServers)] {
		c.servers = append(c.servers, net.JoinHostPort(server, parsed.Port))
	}
	if len(c.servers) == 0 { // as resolv.conf(5) has it
		c.servers = []string{"127.0.0.1:53", "[::1]:53"}
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "options" {
			continue
		}
		for _, option := range words[1:] {
			c.rotate = c.rotate || option == "rotate"
			c.tcp = c.tcp || option == "use-vc"
		}
	}
	return c
}

// followed is what a file says, read again when it has changed. One that cannot
// be read is empty.
type followed[T any] struct {
	path  string
	parse func(text string) T

	mu sync.Mutex
	// guarded by mu
	looked time.Time // zero: never
	stamp  stamp
	value  T
}

// stamp tells a file from what it was before.
type stamp struct {
	changed time.Time
	size    int64
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}

// get is what the file says now, or said a few seconds ago.
func (f *followed[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.looked.IsZero()
	if !first && time.Since(f.looked) < lookEvery {
		return f.value
	}
	f.looked = time.Now()
	if s := stampOf(f.path); first || s != f.stamp {
		text, _ := os.ReadFile(f.path) // empty if that fails
		f.stamp, f.value = s, f.parse(string(text))
	}
	return f.value
}
