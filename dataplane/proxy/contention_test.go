package proxy_test

import (
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestCoresShareNoLock sends requests on two connections, which are of different
// shards, on two cores, and counts how often one found a lock of ours taken by the
// other. What belongs to a shard cannot be; a lock that every request takes is,
// once in a thousand requests or so. What goes on beside the requests, such as
// the sweeping of pools, is allowed for.
func TestCoresShareNoLock(t *testing.T) {
	const bound = 2
	each := 10_000
	if raced {
		each = 2000
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	first := newCaller(t, &errands()[0])
	before := contentions()
	var all sync.WaitGroup
	for range gateShards {
		conn, err := net.Dial("tcp", first.conn.RemoteAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		c := &caller{conn: newPeer(t, "client", conn).conn, request: first.request, answer: make([]byte, len(first.answer))}
		all.Go(func() {
			for range each {
				c.call(t)
			}
		})
	}
	all.Wait()
	sum := int64(0)
	for where, n := range contentions() {
		if n -= before[where]; n > 0 {
			t.Logf("%d times in %s", n, where)
			sum += n
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
