package proxy_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// stormSockets is how many websockets run through a storm: a thousand where that
// is asked for and the process may have as many files. Each takes four where
// HTTP/1 is spoken on both sides.
func stormSockets(t *testing.T) int {
	if os.Getenv("HEADGATE_BARS") != "full" {
		return 40
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	n := 1000
	if fit := (int(min(files.Cur, 1<<20)) - 200) / 4; fit < n {
		t.Logf("only %d sockets: the process may have %d files", fit, files.Cur)
		n = fit
	}
	return n
}

// streamsOfAConnection is how many tunnels of HTTP/2 or HTTP/3 share a connection here; the
// listener allows 128.
const streamsOfAConnection = 100

// TestTunnelsThroughAStorm has websockets echo, byte for byte, while snapshots go
// live that take away their route, their cluster and the endpoint they run to.
func TestTunnelsThroughAStorm(t *testing.T) {
	n := stormSockets(t)
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) { tunnelsThroughAStorm(t, w, n) })
	}
}

func tunnelsThroughAStorm(t *testing.T, w wire, n int) {
	home := singleOver(w.upstream, tunnelServer(t, w.upstream, echoes))
	g := start(t, home)
	var all []*opened
	var s *switcher
	for i := range n {
		if i%streamsOfAConnection == 0 {
			s = switcherOver(t, w.client, g)
		}
		all = append(all, s.mustOpen(s.ask("/chat", "")))
	}
	stop := make(chan struct{})
	var echoing sync.WaitGroup
	for i, o := range all {
		echoing.Go(func() { echoUntil(t, o, i, stop) })
	}
	for i := range 60 {
		switch i % 4 {
		case 0:
			g.apply(manifest("routes: [{name: other, respond: {status: 204}}]"))
		case 1:
			g.apply(strings.Replace(home, "/http", "/other", 1))
		case 2:
			g.apply(singleOver(w.upstream, refusing(t)))
		case 3:
			g.apply(home + "# " + fmt.Sprint(i) + "\n")
		}
	}
	close(stop)
	echoing.Wait()
	for _, o := range all {
		_ = o.CloseWrite()
		o.ends(t)
		_ = o.Close()
	}
	for _, r := range g.recorder.Recent(nil, 2*n) {
		if r.Reason != "" || r.BytesIn != r.BytesOut || r.BytesIn == 0 {
			t.Fatalf("%+v", r)
		}
	}
}

// echoUntil sends and compares until it is told to stop, and once after that.
func echoUntil(t *testing.T, o *opened, id int, stop chan struct{}) {
	for n, last := 0, false; !last; n++ {
		select {
		case <-stop:
			last = true
		default:
		}
		sent := fmt.Sprintf("%d of socket %d: %s", n, id, strings.Repeat("\x00\xff.", n%700))
		if _, err := io.WriteString(o, sent); err != nil {
			t.Errorf("socket %d: %v", id, err)
			return
		}
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(o, got); err != nil || string(got) != sent {
			t.Errorf("socket %d: %.100q for %.100q, %v", id, got, sent, err)
			return
		}
	}
}
