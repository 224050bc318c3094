package upstream

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/upstream/pool"
)

func TestDialAndReuse(t *testing.T) {
	c := only(t, Options{}, cluster("c", accepting(t)))
	e, _ := c.Pick(nil)
	if e.Idle(0) != nil {
		t.Fatal("an idle connection from nowhere")
	}
	conn, err := e.Dial(0)
	must(t, err)
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
	must(t, err)
	if _, err := e.Dial(0); err != ErrOverflow {
		t.Fatalf("error %v", err)
	}
	first.Discard()
	second, err := e.Dial(0)
	must(t, err)
	second.Discard()
}

// slow is a Dial that takes so long, or as long as it may.
func slow(after time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case <-time.After(after):
			near, _ := net.Pipe()
			return near, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func TestDialTimeouts(t *testing.T) {
	for _, test := range []struct {
		name                 string
		takes, deadline, end time.Duration
		want                 error
	}{
		{"in time", 2 * time.Second, 0, 2 * time.Second, nil},
		{"connect timeout", time.Hour, 0, 3 * time.Second, ErrConnectTimeout},
		{"deadline is sooner", time.Hour, time.Second, time.Second, ErrConnectTimeout},
		{"deadline is later", time.Hour, time.Minute, 3 * time.Second, ErrConnectTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := NewRegistry(Options{Dial: slow(test.takes)})
				defer r.Close()
				e := apply(t, r, cluster("c", "a:1")).Cluster(0).endpoints[0]
				began, deadline := time.Now(), int64(0)
				if test.deadline != 0 {
					deadline = socket.Now() + int64(test.deadline)
				}
				conn, err := e.Dial(deadline)
				if err != test.want || time.Since(began) != test.end {
					t.Fatalf("%v after %v", err, time.Since(began))
				}
				if conn != nil {
					conn.Discard()
				}
				if _, open := e.pool.Counts(); open != 0 {
					t.Fatalf("%d connections are left", open)
				}
			})
		})
	}
}

func TestKernelTimeoutIsAConnectTimeout(t *testing.T) {
	dial := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)}
	}
	c := only(t, Options{Dial: dial}, cluster("c", "a:1"))
	if _, err := c.endpoints[0].Dial(0); err != ErrConnectTimeout {
		t.Fatalf("error %v", err)
	}
}

// Waiting for a connection is not the endpoint's fault: it has another error,
// and does not shorten the time that the endpoint has to accept.
func TestDialWaitsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry(Options{Dial: slow(2 * time.Second)})
		defer r.Close()
		config := cluster("c", "a:1")
		config.MaxConnections, config.MaxPendingRequests = 1, 1
		e := apply(t, r, config).Cluster(0).endpoints[0]
		first, err := e.Dial(0)
		must(t, err)

		began := time.Now()
		if _, err := e.Dial(0); err != ErrQueueTimeout || !errors.Is(err, ErrOverflow) || time.Since(began) != 3*time.Second {
			t.Fatalf("%v after %v", err, time.Since(began))
		}

		type result struct {
			conn *pool.Conn
			err  error
		}
		second := make(chan result)
		go func() {
			conn, err := e.Dial(0)
			second <- result{conn, err}
		}()
		synctest.Wait()
		if _, err := e.Dial(0); err != ErrOverflow {
			t.Fatalf("error %v", err)
		}
		time.Sleep(2500 * time.Millisecond)
		first.Discard()
		got := <-second
		if got.err != nil || got.conn.Reused {
			t.Fatalf("%+v", got)
		}
		got.conn.Discard()
	})
}

func TestIdleConnectionsAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry(Options{Dial: slow(0)})
		defer r.Close()
		e := apply(t, r, cluster("c", "a:1")).Cluster(0).endpoints[0]
		conn, err := e.Dial(0)
		must(t, err)
		conn.Release(0)
		time.Sleep(time.Minute - time.Nanosecond)
		if again := e.Idle(0); again != conn {
			t.Fatal("closed too early")
		}
		conn.Release(0)
		time.Sleep(time.Minute)
		if e.Idle(0) != nil {
			t.Fatal("handed out when it was too old")
		}
		time.Sleep(sweepEvery)
		synctest.Wait()
		if _, open := e.pool.Counts(); open != 0 {
			t.Fatalf("%d connections are left", open)
		}
	})
}
