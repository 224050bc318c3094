package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// oneWay is how long everything takes on a long path, in either direction.
const oneWay = 15 * time.Millisecond

// TestLongPath sends 10 MB over a path of 30 ms and as fast as can be, to the data plane
// and from an upstream: the windows of HTTP/2 grow with it, where the first alone would
// take 160 round trips. How many these may be is held where the machine is quiet.
func TestLongPath(t *testing.T) {
	if os.Getenv("HEADGATE_BARS") != "full" {
		t.Skip("takes seconds, and a quiet machine")
	}
	const size, most = 10 << 20, 40
	count := func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); r.Method == http.MethodPost && (n != size || err != nil) {
			t.Errorf("%d bytes came, %v", n, err)
		}
		if r.Method == http.MethodGet {
			_, _ = w.Write(make([]byte, size))
		}
	}
	within := func(t *testing.T, began time.Time) {
		t.Helper()
		trips := time.Since(began) / (2 * oneWay)
		t.Logf("%d round trips", trips)
		if trips > most {
			t.Errorf("%d round trips, want at most %d", trips, most)
		}
	}
	t.Run("upload", func(t *testing.T) {
		g := start(t, single(serve(t, http.HandlerFunc(count))))
		far := longPath(t, g.listener.Addr().String())
		client := visitOver(t, "HTTP/2", g)
		client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, far)
		}
		began := time.Now()
		_ = client.post(t, "/", &io.LimitedReader{R: zeros{}, N: size})
		within(t, began)
	})
	t.Run("download", func(t *testing.T) {
		g := start(t, singleOver("HTTP/2", longPath(t, serveOver(t, "HTTP/2", http.HandlerFunc(count)))))
		began := time.Now()
		if _, body := fetch(t, visit(t, g)); len(body) != size {
			t.Errorf("%d bytes came", len(body))
		}
		within(t, began)
	})
}

// longPath is an address by which another is reached, with everything oneWay later.
func longPath(t *testing.T, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{c, up}, {up, c}} {
				running.Go(func() { carryLate(way[0], way[1]) })
			}
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// carryLate carries what one side sends to the other, however much is under way, and its
// end.
func carryLate(from, to net.Conn) {
	type parcel struct {
		due  time.Time
		data []byte
	}
	parcels := make(chan parcel, 1<<16)
	go func() {
		defer close(parcels)
		for {
			b := make([]byte, 64<<10)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			parcels <- parcel{time.Now().Add(oneWay), b[:n]}
		}
	}()
	for p := range parcels {
		time.Sleep(time.Until(p.due))
		_, _ = to.Write(p.data)
	}
	_ = to.Close()
}
