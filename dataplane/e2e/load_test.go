package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// loss is a kind of failed requests.
type loss struct {
	under  string // what was going on
	order  bool   // they were not idempotent
	headed bool   // they were being answered
	reason string
}

// load is requests without a pause on some connections.
type load struct {
	lines    []*line
	each     int // requests at a time on a line
	pause    time.Duration
	asked    atomic.Int64
	under    atomic.Value // string: what is going on
	answered atomic.Int64
	orders   atomic.Int64 // of those that were answered

	mu   sync.Mutex
	by   map[string]int64 // answers by backend
	lost map[loss]int64

	stop  context.CancelFunc // of new requests
	hurry context.CancelFunc // of those that are under way
	done  sync.WaitGroup
}

func startLoad(t testing.TB, address string, http2 bool, connections, each int, pause time.Duration) *load {
	t.Helper()
	l := &load{each: each, pause: pause, by: map[string]int64{}, lost: map[loss]int64{}}
	var requests, ctx context.Context
	requests, l.hurry = context.WithCancel(context.Background())
	ctx, l.stop = context.WithCancel(requests)
	l.under.Store("")
	for range connections {
		l.lines = append(l.lines, &line{address: address, http2: http2})
	}
	for _, line := range l.lines {
		for range each {
			l.done.Go(func() { l.run(ctx, requests, line) })
		}
	}
	t.Cleanup(l.end)
	return l
}

// end stops after the requests that are under way, if they end at all.
func (l *load) end() {
	l.stop()
	hang := time.AfterFunc(patience, l.hurry)
	l.done.Wait()
	hang.Stop()
	l.hurry()
	for _, line := range l.lines {
		line.close()
	}
}

// run sends one request after the other: of sixteen, one is an order and three
// have long answers.
func (l *load) run(ctx, requests context.Context, on *line) {
	for ctx.Err() == nil {
		n := l.asked.Add(1)
		method, kind := http.MethodGet, shortPath
		switch n % 16 {
		case 0:
			method, kind = http.MethodPost, orderPath
		case 3, 7, 11:
			kind = longPath
		}
		a := on.ask(requests, method, kind, fmt.Sprint(n))
		l.note(a, method == http.MethodPost)
		time.Sleep(l.pause)
	}
}

func (l *load) note(a answer, order bool) {
	if a.fault == nil && order {
		l.orders.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.fault != nil {
		l.lost[loss{l.under.Load().(string), order, a.headed, reason(a.fault)}]++
		return
	}
	l.answered.Add(1)
	l.by[a.from]++
}

// reason is an error without the addresses in it.
func reason(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		prefix, _, _ := strings.Cut(err.Error(), ": ")
		return fmt.Sprintf("%s: %s: %v", prefix, op.Op, op.Err)
	}
	return err.Error()
}

// from is how many answers a backend has given.
func (l *load) from(name string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[name]
}

// more waits for n more answers.
func (l *load) more(t testing.TB, n int64) {
	t.Helper()
	goal := l.answered.Load() + n
	until(t, fmt.Sprintf("%d more answers", n), func() bool { return l.answered.Load() >= goal })
}

// tally is what was lost, in three numbers.
type tally struct {
	answered, orders int64
	headed           int64 // idempotent requests that were being answered
	failed           int64 // idempotent ones that were not: nothing excuses them
	ordersLost       int64
}

// sum adds up what is under one fault, or all of them if it is "".
func (l *load) sum(under string) tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := tally{answered: l.answered.Load(), orders: l.orders.Load()}
	for kind, n := range l.lost {
		switch {
		case under != "" && kind.under != under:
		case kind.order:
			s.ordersLost += n
		case kind.headed:
			s.headed += n
		default:
			s.failed += n
		}
	}
	return s
}
