package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

func newApplier(t *testing.T, node Node, store *Store) *Applier {
	t.Helper()
	a := NewApplier(ApplierOptions{Node: node, Store: store, Events: NewEventLog("test", 0)})
	t.Cleanup(a.Close)
	return a
}

// states collects what an observer hears, in one word each.
type states []string

func (s *states) observe(u *controlv1.StateUpdate) {
	word := stateName(u.State)
	if u.Unchanged {
		word += " unchanged"
	}
	*s = append(*s, word)
}

func wantReason(t *testing.T, err error, want Reason) *Refusal {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) || r.Reason != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	return r
}

func wantStates(t *testing.T, got states, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("states %q, want %q", got, want)
	}
}

func TestApply(t *testing.T) {
	node := &fakeNode{}
	a := newApplier(t, node, nil)
	var seen states
	r, err := a.Apply(t.Context(), Request{Snapshot: config("one", 1, 2), Writer: "me", Source: "test", Observe: seen.observe})
	if err != nil {
		t.Fatal(err)
	}
	if r.Info.Generation != 1 || r.Info.Version != "one" || r.Info.Writer != "me" || r.Diff.AddedCount != 3 || r.Unchanged {
		t.Errorf("result %v", r)
	}
	wantStates(t, seen, "RECEIVED", "VALIDATED", "ACTIVE")
	if info, s := a.Active(); info.Digest != s.Digest || node.runs() != "one" {
		t.Errorf("active %v, live %q", info, node.runs())
	}

	seen = nil
	r, err = a.Apply(t.Context(), Request{Snapshot: config("again", 1, 2), Observe: seen.observe})
	if err != nil || !r.Unchanged || r.Info.Version != "one" {
		t.Errorf("the same again: %v, %v", r, err)
	}
	wantStates(t, seen, "RECEIVED", "VALIDATED unchanged", "ACTIVE unchanged")
	if node.prepared != 1 || len(node.committed) != 1 {
		t.Errorf("prepared %d times, committed %v", node.prepared, node.committed)
	}
}

// TestOneBadRoute is a fault among a hundred routes: the whole is refused, with
// each fault's path, and what ran runs on.
func TestOneBadRoute(t *testing.T) {
	node := &fakeNode{}
	a := newApplier(t, node, nil)
	if _, err := a.Apply(t.Context(), Request{Snapshot: config("good", 1, 100)}); err != nil {
		t.Fatal(err)
	}
	bad := config("bad", 2, 100)
	bad.Routes[37].Action = &configv1.Route_Forward{Forward: &configv1.Forward{
		Backends: []*configv1.Backend{{Cluster: "nowhere"}},
	}}
	bad.Routes[61].Name = "r60"
	var seen states
	_, err := a.Apply(t.Context(), Request{Snapshot: bad, Observe: seen.observe})
	r := wantReason(t, err, ReasonInvalid)
	var paths []string
	for _, v := range r.Violations {
		paths = append(paths, v.Path)
	}
	if !slices.Equal(paths, []string{"routes[37].forward.backends[0].cluster", "routes[61].name"}) {
		t.Errorf("paths %q", paths)
	}
	wantStates(t, seen, "RECEIVED", "REJECTED")
	if node.runs() != "good" || node.prepared != 1 {
		t.Errorf("%q runs, prepared %d times", node.runs(), node.prepared)
	}
}

func TestTwoWriters(t *testing.T) {
	store := memoryStore()
	a := newApplier(t, &fakeNode{}, store)
	apply := func(seed int, term uint64, base string) (*Result, error) {
		return a.Apply(t.Context(), Request{Snapshot: config("", seed, 1), Term: term, BaseDigest: base})
	}
	first, err := apply(1, 4, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = apply(2, 5, strings.Repeat("0", 64))
	if r := wantReason(t, err, ReasonBaseDigest); r.Facts["active_digest"] != first.Info.Digest {
		t.Errorf("facts %v", r.Facts)
	}
	if store.Term() != 5 {
		t.Errorf("term %d is stored, 5 was seen", store.Term())
	}
	_, err = apply(3, 4, "")
	wantReason(t, err, ReasonStaleTerm)
	if _, err := apply(3, 5, first.Info.Digest); err != nil {
		t.Errorf("the right base: %v", err)
	}
	again, err := apply(3, 6, "")
	if err != nil || !again.Unchanged || store.Term() != 6 {
		t.Errorf("unchanged under a higher term: %v, %v, term %d", again, err, store.Term())
	}
}

func TestShrinkGuard(t *testing.T) {
	a := newApplier(t, &fakeNode{}, nil)
	if _, err := a.Apply(t.Context(), Request{Snapshot: config("", 1, 20)}); err != nil {
		t.Fatal(err)
	}
	_, err := a.Apply(t.Context(), Request{Snapshot: config("", 1, 5)})
	wantReason(t, err, ReasonShrink)
	_, err = a.Plan(t.Context(), Request{Snapshot: config("", 1, 5)})
	wantReason(t, err, ReasonShrink)
	if _, err := a.Apply(t.Context(), Request{Snapshot: config("", 1, 5), AllowShrink: true}); err != nil {
		t.Error(err)
	}
}

// TestSupersede has one snapshot warming while two more come: only the last one
// becomes active.
func TestSupersede(t *testing.T) {
	node := &fakeNode{hold: make(chan struct{}), entered: make(chan string)}
	a := newApplier(t, node, nil)
	apply := func(version string, seed int) (chan error, *states) {
		done, seen := make(chan error, 1), &states{}
		go func() {
			_, err := a.Apply(context.Background(), Request{Snapshot: config(version, seed, 1), Observe: seen.observe})
			done <- err
		}()
		return done, seen
	}
	one, seenOne := apply("one", 1)
	if v := <-node.entered; v != "one" {
		t.Fatalf("%q is prepared", v)
	}
	two, _ := apply("two", 2)
	wantReason(t, <-one, ReasonSuperseded)
	wantStates(t, *seenOne, "RECEIVED", "VALIDATED", "SUPERSEDED")
	if v := <-node.entered; v != "two" {
		t.Fatalf("%q is prepared", v)
	}
	three, _ := apply("three", 3)
	wantReason(t, <-two, ReasonSuperseded)
	<-node.entered
	close(node.hold)
	if err := <-three; err != nil {
		t.Fatal(err)
	}
	if node.runs() != "three" || len(node.committed) != 1 {
		t.Errorf("%q runs, committed %v", node.runs(), node.committed)
	}
}

// TestPushedAgainWhileWarming is the retry of a writer whose stream was cut:
// the snapshot is applied once, and the retry hears of it.
func TestPushedAgainWhileWarming(t *testing.T) {
	node := &fakeNode{hold: make(chan struct{}), entered: make(chan string, 1)}
	a := newApplier(t, node, nil)
	ctx, cut := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := a.Apply(ctx, Request{Snapshot: config("one", 1, 1)})
		first <- err
	}()
	<-node.entered
	cut()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatalf("the first: %v", err)
	}
	second := make(chan error, 1)
	validated := make(chan struct{})
	go func() {
		_, err := a.Apply(context.Background(), Request{Snapshot: config("one", 1, 1), Observe: func(u *controlv1.StateUpdate) {
			if u.State == controlv1.SnapshotState_SNAPSHOT_STATE_VALIDATED {
				close(validated)
			}
		}})
		second <- err
	}()
	<-validated
	close(node.hold)
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	if node.prepared != 1 || len(node.committed) != 1 {
		t.Errorf("prepared %d times, committed %v", node.prepared, node.committed)
	}
}

func TestNodeRefuses(t *testing.T) {
	node := &fakeNode{fail: errors.Join(
		&FieldError{Path: "listeners[0].address", Err: errors.New("address already in use")},
		&FieldError{Path: "listeners[1].address", Err: errors.New("permission denied")},
	)}
	a := newApplier(t, node, nil)
	_, err := a.Apply(t.Context(), Request{Snapshot: config("", 1, 1)})
	r := wantReason(t, err, ReasonNode)
	if len(r.Violations) != 2 || r.Violations[0].Path != "listeners[0].address" {
		t.Errorf("violations %v", r.Violations)
	}
	if info, _ := a.Active(); info != nil || len(a.Store().List()) != 0 {
		t.Errorf("active %v, stored %v", info, a.Store().List())
	}
}

type panicking struct{ fakeNode }

func (n *panicking) Prepare(context.Context, *snapshot.Snapshot) (Prepared, error) { panic("no") }

func TestNodePanics(t *testing.T) {
	a := newApplier(t, &panicking{}, nil)
	_, err := a.Apply(t.Context(), Request{Snapshot: config("", 1, 1)})
	wantReason(t, err, ReasonNode)
}

func TestStoreFails(t *testing.T) {
	d := newCrashDisk()
	node := &fakeNode{}
	a := newApplier(t, node, mustStore(t, d))
	if _, err := a.Apply(t.Context(), Request{Snapshot: config("one", 1, 1)}); err != nil {
		t.Fatal(err)
	}
	d.failAt = d.ops + 1
	_, err := a.Apply(t.Context(), Request{Snapshot: config("two", 2, 1)})
	wantReason(t, err, ReasonStore)
	if node.runs() != "one" || node.aborted != 1 {
		t.Errorf("%q runs, aborted %d", node.runs(), node.aborted)
	}
	r, err := a.Apply(t.Context(), Request{Snapshot: config("two", 2, 1)})
	if err != nil || r.Info.Generation != 3 {
		t.Errorf("afterwards: %v, %v", r, err)
	}
}

func TestCloseUndoes(t *testing.T) {
	node := &fakeNode{hold: make(chan struct{}), entered: make(chan string, 1)}
	a := NewApplier(ApplierOptions{Node: node})
	done := make(chan error, 1)
	go func() {
		_, err := a.Apply(context.Background(), Request{Snapshot: config("", 1, 1)})
		done <- err
	}()
	<-node.entered
	a.Close()
	wantReason(t, <-done, ReasonStopping)
	_, err := a.Apply(t.Context(), Request{Snapshot: config("", 2, 1)})
	wantReason(t, err, ReasonStopping)
}

// TestRestart ends a process and starts another on the same directory, with the
// newest file damaged the second time.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	start := func() (*Applier, *fakeNode) {
		store, err := OpenStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		node := &fakeNode{}
		return NewApplier(ApplierOptions{Node: node, Store: store}), node
	}
	stop := func(a *Applier) { a.Close(); _ = a.Store().Close() }

	a, _ := start()
	if info, err := a.Restore(t.Context()); info != nil || err != nil {
		t.Fatalf("an empty directory: %v, %v", info, err)
	}
	for seed, version := range []string{"one", "two"} {
		if _, err := a.Apply(t.Context(), Request{Snapshot: config(version, seed, 1), Term: 3}); err != nil {
			t.Fatal(err)
		}
	}
	stop(a)

	a, node := start()
	info, err := a.Restore(t.Context())
	if err != nil || info.Version != "two" || info.Generation != 2 || node.runs() != "two" || a.Term() != 3 {
		t.Fatalf("restored %v, %v, %q runs, term %d", info, err, node.runs(), a.Term())
	}
	if r, err := a.Apply(t.Context(), Request{Snapshot: config("two", 1, 1), Term: 3}); err != nil || !r.Unchanged {
		t.Errorf("the same after a restart: %v, %v", r, err)
	}
	stop(a)

	if err := os.Truncate(filepath.Join(dir, generationName(2)), 100); err != nil {
		t.Fatal(err)
	}
	a, node = start()
	defer stop(a)
	info, err = a.Restore(t.Context())
	if err != nil || info.Version != "one" || node.runs() != "one" {
		t.Fatalf("restored %v, %v", info, err)
	}
	events, _ := a.Events().ReadFrom(0, "").Ready(10)
	if e := events[0].GetStore(); e.GetGeneration() != 2 || !strings.Contains(e.GetCause(), "ends early") {
		t.Errorf("the corrupt one is not said: %v", events)
	}
	if e := events[1].GetStore(); e.GetGeneration() != 1 || !strings.Contains(e.GetCause(), "generation 1 is used") {
		t.Errorf("the one before it is not said: %v", events)
	}
	if r, err := a.Apply(t.Context(), Request{Snapshot: config("three", 3, 1), Term: 3}); err != nil || r.Info.Generation != 3 {
		t.Errorf("the next: %v, %v", r, err)
	}
}

// TestRestartRefused has a generation on disk that this program refuses, though
// it is whole: the one before it is used.
func TestRestartRefused(t *testing.T) {
	store := memoryStore()
	for n, s := range []*configv1.Snapshot{config("good", 1, 1), {Version: "bad", Routes: []*configv1.Route{{}}}} {
		body, err := proto.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Save(Meta{Generation: uint64(n + 1), Version: s.Version}, body); err != nil {
			t.Fatal(err)
		}
	}
	a := newApplier(t, &fakeNode{}, store)
	info, err := a.Restore(t.Context())
	if err != nil || info.Version != "good" {
		t.Fatalf("restored %v, %v", info, err)
	}
	events, _ := a.Events().ReadFrom(0, "").Ready(10)
	if len(events) != 3 || !strings.Contains(events[0].GetStore().GetCause(), "routes[0].name") {
		t.Errorf("events %v", events)
	}
	busy := &fakeNode{fail: errors.New("address already in use")}
	if _, err := newApplier(t, busy, store).Restore(t.Context()); err == nil || !strings.Contains(err.Error(), "generation 1: address") {
		t.Errorf("on a node that can't: %v", err)
	}
}

func TestRollback(t *testing.T) {
	a := newApplier(t, &fakeNode{}, nil)
	for seed, version := range []string{"one", "two", "three"} {
		if _, err := a.Apply(t.Context(), Request{Snapshot: config(version, seed, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := a.Rollback(t.Context(), 0, Request{})
	if err != nil || r.Info.Version != "two" || r.Info.Generation != 4 {
		t.Fatalf("%v, %v", r, err)
	}
	r, err = a.Rollback(t.Context(), 1, Request{})
	if err != nil || r.Info.Version != "one" || r.Info.Generation != 5 {
		t.Fatalf("%v, %v", r, err)
	}
	_, err = a.Rollback(t.Context(), 99, Request{})
	wantReason(t, err, ReasonNoGeneration)
}

func TestDegraded(t *testing.T) {
	a := newApplier(t, &fakeNode{}, nil)
	if _, err := a.Apply(t.Context(), Request{Snapshot: config("one", 1, 2)}); err != nil {
		t.Fatal(err)
	}
	r1 := &controlv1.ResourceName{Kind: controlv1.ResourceKind_RESOURCE_KIND_ROUTE, Name: "r1"}
	web := &controlv1.ResourceName{Kind: controlv1.ResourceKind_RESOURCE_KIND_LISTENER, Name: "web"}
	reader := a.Events().ReadNew()
	_, changed := a.Degradations()
	a.Degrade(r1, "does not work")
	a.Degrade(r1, "does not work")
	a.Degrade(web, "is gone")
	<-changed
	if list, _ := a.Degradations(); len(list) != 2 || list[0].Resource.Name != "web" {
		t.Errorf("degraded %v", list)
	}
	a.Recover(web)
	events, _ := reader.Ready(10)
	if len(events) != 3 || len(events[2].GetSnapshot().Update.Degradations) != 1 {
		t.Errorf("events %v", events)
	}
	if _, err := a.Apply(t.Context(), Request{Snapshot: config("two", 1, 1)}); err != nil {
		t.Fatal(err)
	}
	if list, _ := a.Degradations(); len(list) != 0 {
		t.Errorf("the route is gone, and still: %v", list)
	}
}

// TestTrace holds the steps of an apply to be one trace under its caller's.
func TestTrace(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(recorder)).Tracer("test")
	a := NewApplier(ApplierOptions{Node: &fakeNode{}, Tracer: tracer})
	defer a.Close()
	ctx, root := tracer.Start(t.Context(), "ctl apply")
	if _, err := a.Apply(ctx, Request{Snapshot: config("", 1, 1)}); err != nil {
		t.Fatal(err)
	}
	root.End()
	parents := map[string]string{}
	names := map[string]string{}
	for _, s := range recorder.Ended() {
		names[s.SpanContext().SpanID().String()] = s.Name()
	}
	for _, s := range recorder.Ended() {
		parents[s.Name()] = names[s.Parent().SpanID().String()]
	}
	for _, step := range []string{"compile", "prepare", "persist", "commit"} {
		if parents["headgate."+step] != "headgate.apply" {
			t.Errorf("%s is under %q", step, parents["headgate."+step])
		}
	}
	if parents["headgate.apply"] != "ctl apply" {
		t.Errorf("apply is under %q", parents["headgate.apply"])
	}
}

// What begins to fail while a snapshot is made live is said after it is ACTIVE.
func TestDegradedWhileCommitting(t *testing.T) {
	node := &fakeNode{}
	a := newApplier(t, node, nil)
	reader := a.Events().ReadNew()
	_, changed := a.Degradations()
	web := &controlv1.ResourceName{Kind: controlv1.ResourceKind_RESOURCE_KIND_LISTENER, Name: "web"}
	node.committing = func() {
		a.Degrade(web, "has no certificate yet")
		select {
		case <-changed:
			t.Error("said before the snapshot was active")
		default:
		}
	}
	if _, err := a.Apply(t.Context(), Request{Snapshot: config("one", 1, 2)}); err != nil {
		t.Fatal(err)
	}
	<-changed
	events, _ := reader.Ready(10)
	var got []string
	for _, e := range events {
		u := e.GetSnapshot().GetUpdate()
		got = append(got, fmt.Sprintf("%s %d %d", stateName(u.GetState()), u.GetSnapshot().GetGeneration(), len(u.GetDegradations())))
	}
	if n := len(got); n < 2 || got[n-2] != "ACTIVE 1 0" || got[n-1] != "DEGRADED 1 1" {
		t.Errorf("events: %q", got)
	}
}
