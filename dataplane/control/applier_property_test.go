package control

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestActiveIsLastAccepted pushes from several writers at once, with nodes and
// disks that fail: what is active, live and on disk is always the one that was
// accepted last, and each apply has one end.
func TestActiveIsLastAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := &fakeNode{}
		d := newCrashDisk()
		store, err := newStore(d, "crash", func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		a := NewApplier(ApplierOptions{Node: node, Store: store})
		defer a.Close()
		t.Repeat(map[string]func(*rapid.T){
			"apply": func(t *rapid.T) { concurrently(t, a) },
			"fail the node": func(t *rapid.T) {
				node.fail = errors.New("no")
				concurrently(t, a)
				node.fail = nil
			},
			"fail the disk": func(t *rapid.T) {
				d.failAt = d.ops + rapid.IntRange(0, 12).Draw(t, "in")
				concurrently(t, a)
				d.failAt = -1
			},
			"": func(t *rapid.T) { consistent(t, a, node, d) },
		})
	})
}

func concurrently(t *rapid.T, a *Applier) {
	var all sync.WaitGroup
	seeds := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 3).Draw(t, "seeds")
	term := rapid.Uint64Range(0, 2).Draw(t, "term")
	for _, seed := range seeds {
		all.Go(func() {
			var seen states
			_, err := a.Apply(context.Background(), Request{Snapshot: config("", seed, 1), Term: term, Observe: seen.observe})
			last := strings.TrimSuffix(seen[len(seen)-1], " unchanged")
			if ok := last == "ACTIVE"; ok != (err == nil) {
				panic("states " + strings.Join(seen, ", ") + " and " + err.Error())
			}
		})
	}
	all.Wait()
	a.running.Wait() // what was superseded is undone
}

func consistent(t *rapid.T, a *Applier, node *fakeNode, d *crashDisk) {
	info, s := a.Active()
	if info == nil {
		return
	}
	if node.live != s || node.committed[len(node.committed)-1] != info.Generation {
		t.Fatalf("active %v, live %v %v", info, node.live.Version, node.committed)
	}
	again, err := newStore(d, "crash", func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if newest := again.List()[0]; newest.Err != nil || newest.Digest != info.Digest {
		t.Fatalf("active %v, a restart has %v", info, newest)
	}
	if got := again.Term(); got < a.Store().Term() || got > a.Term() {
		t.Fatalf("term %d is stored and %d was seen, a restart has %d", a.Store().Term(), a.Term(), got)
	}
}
