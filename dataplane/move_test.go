package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/headgate/headgate/dataplane/control"
)

// A listener moves from one host to all and back, with its port, while clients
// come and go: none of them is turned away. Those who are there are drained, as
// those of a listener that goes: a request that crosses the end of its connection
// gets no byte of an answer, and all others a whole one.
func TestListenerMovesBesideItself(t *testing.T) {
	g := start(t, Options{})
	one := freePort(t).String()
	_, port, _ := net.SplitHostPort(one)
	manifest := func(address, body string) string {
		return fmt.Sprintf(`{listeners: [{name: web, address: "%s"}], routes: [{name: all, respond: {body: "%s"}}]}`, address, body)
	}
	g.apply(manifest(one, "0"))
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: number(t, port)}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var clients sync.WaitGroup
	var answered atomic.Int64
	for range 2 {
		clients.Go(func() {
			for ctx.Err() == nil {
				c, err := connect(at)
				if err != nil {
					t.Errorf("connect: %v", err)
					return
				}
				if a, err := c.get("/"); err == nil && a.status == 200 {
					answered.Add(1)
				} else if a.status != 0 {
					t.Errorf("get: %+v, %v", a, err)
				}
				_ = c.Close()
			}
		})
	}
	for i, address := range []string{":" + port, one, "0.0.0.0:" + port, one} {
		g.apply(manifest(address, strconv.Itoa(i+1)))
		if a := dial(t, at).mustGet(t, "/"); a.body != strconv.Itoa(i+1) {
			t.Errorf("at %s: %q", address, a.body)
		}
		if _, err := net.Listen("tcp", one); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("at %s the port is shared with others: %v", address, err)
		}
	}
	stop()
	clients.Wait()
	if answered.Load() == 0 {
		t.Error("nobody was answered")
	}
}

// What another program has is refused as before, and what ran serves on.
func TestListenerMovesOntoAnother(t *testing.T) {
	g := start(t, Options{})
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	g.apply(`{listeners: [{name: web, address: "127.0.0.2:0"}], routes: [{name: all, respond: {body: here}}]}`)
	_, port, _ := net.SplitHostPort(other.Addr().String())
	r := g.refused(control.Request{Snapshot: parse(t, `{listeners: [{name: web, address: ":`+port+`"}], routes: [{name: all, respond: {}}]}`)}, control.ReasonNode)
	if len(r.Violations) != 1 || r.Violations[0].Path != "listeners[0].address" || !strings.Contains(r.Violations[0].Message, "address already in use") {
		t.Errorf("refused: %v", r)
	}
	if a := dial(t, g.at("web")).mustGet(t, "/"); a.body != "here" {
		t.Error(a)
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
