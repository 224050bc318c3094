package proxy_test

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestCoresShareNoLock sends requests on two connections, which are of different
// shards, on two cores, and counts how often one found a lock of ours taken by the
// other. What belongs to a shard cannot be; a lock that every request takes is,
// once in a thousand requests or so. What goes on beside the requests, such as
// the sweeping of pools, is allowed for.
func TestCoresShareNoLock(t *testing.T) {
	e := &errands()[0]
	first := newCaller(t, e)
	shareNoLock(t, 2, func() func() {
		conn, err := net.Dial("tcp", first.conn.RemoteAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		c := &caller{conn: newPeer(t, "client", conn).conn, request: first.request, answer: make([]byte, len(first.answer))}
		return func() { c.call(t) }
	})
}

// TestStreamsShareNoLock is the same over HTTP/2, where a connection is shared by what
// reads it and what answers: the locks that count are those that are not of its wire.
func TestStreamsShareNoLock(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }
	for _, upstream := range []string{"HTTP/1", "HTTP/2"} {
		t.Run(upstream, func(t *testing.T) {
			g := start(t, singleOver(upstream, serveOver(t, upstream, http.HandlerFunc(h))))
			shareNoLock(t, 5, func() func() {
				c := newStreamCaller(t, g, "GET", "", len("hello"))
				_ = c.conn.SetDeadline(time.Time{})
				return func() { c.call(t) }
			})
		})
	}
}

// shareNoLock has callers of different shards call at the same time, and finds at most
// so many locks taken.
func shareNoLock(t *testing.T, bound int64, connect func() (call func())) {
	t.Helper()
	each := 10_000
	if raced {
		each = 2000
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	before := contentions()
	var all sync.WaitGroup
	for range gateShards {
		call := connect()
		all.Go(func() {
			for range each {
				call()
			}
		})
	}
	all.Wait()
	sum := int64(0)
	for where, n := range contentions() {
		if n -= before[where]; n > 0 {
			t.Logf("%d times in %s", n, where)
			if !strings.Contains(where, "/dataplane/http2.") {
				sum += n
			}
		}
	}
	if sum > bound {
		t.Errorf("in %d requests a lock was found taken %d times, want at most %d", gateShards*each, sum, bound)
	}
}

// contentions counts how often locks were found taken since the profile began, by
// the function of ours that gave them back.
func contentions() map[string]int64 {
	records := make([]runtime.BlockProfileRecord, 1000)
	n, ok := runtime.MutexProfile(records)
	for !ok {
		records = make([]runtime.BlockProfileRecord, 2*n)
		n, ok = runtime.MutexProfile(records)
	}
	counts := map[string]int64{}
	for i := range records[:n] {
		if where := ours(records[i].Stack()); where != "" {
			counts[where] += records[i].Count
		}
	}
	return counts
}

// ours is the innermost function of the data plane on the stack of one that gave
// a lock of package sync back, or "": the scheduler's own locks are no business
// of ours.
func ours(stack []uintptr) string {
	frames := runtime.CallersFrames(stack)
	for first := true; ; first = false {
		f, more := frames.Next()
		switch {
		case first && !strings.HasPrefix(strings.TrimPrefix(f.Function, "internal/"), "sync."):
			return ""
		case strings.Contains(f.Function, "/headgate/dataplane/") && !strings.Contains(f.Function, "_test."):
			return f.Function
		case !more:
			return ""
		}
	}
}
