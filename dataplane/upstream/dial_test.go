package upstream

import (
	"errors"
	"syscall"
	"testing"
)

func TestDialAndReuse(t *testing.T) {
	c := only(t, Options{}, cluster("c", accepting(t)))
	e, _ := c.Pick(nil)
	if e.Idle(0) != nil {
		t.Fatal("an idle connection from nowhere")
	}
	conn, err := e.Dial(0)
	if err != nil {
		t.Fatal(err)
	}
	if conn.Reused {
		t.Error("a new connection says that it was used")
	}
	conn.Release(0)
	if again := e.Idle(1); again != conn || !again.Reused {
		t.Fatalf("Idle = %v", again)
	}
	if e.Idle(0) != nil {
		t.Fatal("the same connection twice")
	}
	conn.Discard()
	if s := c.Status(); s.Connections != 0 {
		t.Fatalf("%d connections", s.Connections)
	}
}

func TestDialRefused(t *testing.T) {
	c := only(t, Options{}, cluster("c", refusing(t)))
	_, err := c.endpoints[0].Dial(0)
	var refused *ConnectError
	if !errors.As(err, &refused) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("error %v", err)
	}
	if s := c.Status(); s.Connections != 0 {
		t.Fatalf("the place was not given back: %d", s.Connections)
	}
}

func TestDialOverflow(t *testing.T) {
	config := cluster("c", accepting(t))
	config.MaxConnections, config.MaxPendingRequests = 1, 0
	c := only(t, Options{}, config)
	e := c.endpoints[0]
	first, err := e.Dial(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Dial(0); err != ErrOverflow {
		t.Fatalf("error %v", err)
	}
	first.Discard()
	second, err := e.Dial(0)
	if err != nil {
		t.Fatal(err)
	}
	second.Discard()
}
