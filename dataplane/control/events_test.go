package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

func healthEvent(cluster string) *controlv1.Event {
	return &controlv1.Event{Detail: &controlv1.Event_EndpointHealth{
		EndpointHealth: &controlv1.EndpointHealthEvent{Cluster: cluster},
	}}
}

func storeEvent(cause string) *controlv1.Event {
	return &controlv1.Event{Detail: &controlv1.Event_Store{Store: &controlv1.StoreEvent{Cause: cause}}}
}

// told puts events into one line: numbers, and gaps in brackets.
func told(events []*controlv1.Event) string {
	var words []string
	for _, e := range events {
		if g := e.GetGap(); g != nil {
			words = append(words, fmt.Sprintf("[%d-%d]", g.From, g.To))
			continue
		}
		words = append(words, fmt.Sprint(e.Sequence))
	}
	return strings.Join(words, " ")
}

// TestResume reads a log of four that has seen six events.
func TestResume(t *testing.T) {
	l := NewEventLog("test", 4)
	if got, err := l.ReadFrom(0, "").Ready(10); err != nil || told(got) != "" {
		t.Errorf("an empty log: %s, %v", told(got), err)
	}
	for range 6 {
		l.Publish(healthEvent("a"))
	}
	for _, c := range []struct {
		from     uint64
		instance string
		want     string
	}{
		{0, "", "3 4 5 6"},
		{1, "", "[1-2] 3 4 5 6"},
		{3, l.Instance(), "3 4 5 6"},
		{6, l.Instance(), "6"},
		{7, l.Instance(), ""},
		{5, "another process", "[0-0] 3 4 5 6"},
		{900, "", "[0-0] 3 4 5 6"},
	} {
		got, err := l.ReadFrom(c.from, c.instance).Ready(10)
		if err != nil || told(got) != c.want {
			t.Errorf("from %d of %q: %s, %v; want %s", c.from, c.instance, told(got), err, c.want)
		}
	}
	if got, err := l.ReadNew().Ready(10); err != nil || len(got) != 0 {
		t.Errorf("new ones: %s, %v", told(got), err)
	}
}

func TestEventIsFilledIn(t *testing.T) {
	l := NewEventLog("test", 0)
	l.setVersion("one")
	l.Publish(healthEvent("a"))
	e, _ := l.ReadFrom(0, "").Ready(1)
	if e[0].Node != "test" || e[0].Instance != l.Instance() || e[0].SnapshotVersion != "one" || e[0].Time == nil {
		t.Errorf("event %v", e[0])
	}
}

// TestReaderWaits has readers that sleep until something is published, and are
// cut off when they fall behind; the publisher waits for none of them.
func TestReaderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewEventLog("test", 4)
		r := l.ReadNew()
		got := make(chan string)
		go func() {
			for {
				events, err := r.Next(t.Context(), 2)
				if err != nil {
					got <- err.Error()
					return
				}
				got <- told(events)
			}
		}()
		synctest.Wait()
		l.Publish(healthEvent("a"))
		if s := <-got; s != "1" {
			t.Errorf("read %q", s)
		}
		synctest.Wait()
		l.Publish(healthEvent("a"))
		synctest.Wait() // the reader holds 2 and is not listened to
		for range 9 {
			l.Publish(healthEvent("a"))
		}
		if s := <-got; s != "2" {
			t.Errorf("read %q", s)
		}
		if s := <-got; s != "reader too slow: event 3 is gone, the oldest kept is 8" {
			t.Errorf("read %q", s)
		}
	})
}

func TestReaderEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewEventLog("", 1).ReadNew().Next(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// watch reads until the stream ends or want events came.
func (r *rig) watch(m *controlv1.WatchRequest, want int) ([]*controlv1.Event, error) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	stream, err := r.events.Watch(ctx, m)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []*controlv1.Event
	for len(out) < want {
		e, err := stream.Recv()
		if err != nil {
			return out, err
		}
		out = append(out, e.Event)
	}
	return out, nil
}

func TestWatch(t *testing.T) {
	r := newRig(t, nil)
	log := r.applier.Events()
	log.Publish(healthEvent("a"))
	log.Publish(healthEvent("b"))
	log.Publish(storeEvent("x"))
	r.apply(config("one", 1, 1)) // RECEIVED, VALIDATED, ACTIVE
	all := new(uint64)
	for name, c := range map[string]struct {
		m    *controlv1.WatchRequest
		want string
	}{
		"all":     {&controlv1.WatchRequest{FromSequence: all}, "1 2 3 4 5 6"},
		"none":    {&controlv1.WatchRequest{}, ""},
		"health":  {&controlv1.WatchRequest{FromSequence: all, Kinds: []controlv1.EventKind{controlv1.EventKind_EVENT_KIND_ENDPOINT_HEALTH}}, "1 2"},
		"cluster": {&controlv1.WatchRequest{FromSequence: all, Clusters: []string{"b"}}, "2 3 4 5 6"},
		"restart": {&controlv1.WatchRequest{FromSequence: all, Instance: "old", Kinds: []controlv1.EventKind{controlv1.EventKind_EVENT_KIND_STORE}}, "[0-0] 3"},
	} {
		got, err := r.watch(c.m, 100)
		if !errors.Is(err, io.EOF) || told(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", name, told(got), err, c.want)
		}
	}
	_, err := r.watch(&controlv1.WatchRequest{Kinds: []controlv1.EventKind{99}}, 1)
	wantCode(t, err, codes.InvalidArgument, "kinds")
}

// TestWatchFollows: states of snapshots come as they happen, with their lists cut.
func TestWatchFollows(t *testing.T) {
	r := newRig(t, nil)
	got := make(chan []*controlv1.Event)
	r.apply(config("one", 1, 40))
	go func() {
		events, _ := r.watch(&controlv1.WatchRequest{FromSequence: new(uint64), Follow: true}, 5)
		got <- events
	}()
	bad := config("two", 2, 40)
	for _, route := range bad.Routes {
		route.GetRespond().Status = 1
	}
	_, err := r.applier.Apply(t.Context(), Request{Snapshot: bad})
	wantReason(t, err, ReasonInvalid)
	events := <-got
	active, rejected := events[2].GetSnapshot().Update, events[4].GetSnapshot().Update
	if d := active.Diff; d.AddedCount != 41 || len(d.Added) != maxEventEntries {
		t.Errorf("active %v", active)
	}
	if rejected.ViolationCount != 40 || len(rejected.Violations) != maxEventEntries || events[4].SnapshotVersion != "one" {
		t.Errorf("rejected %v under %q", rejected, events[4].SnapshotVersion)
	}
}

// TestSlowWatcher does not read while far more is published than the log and
// the stream's window hold. It is cut off with a reason, and nobody waited.
func TestSlowWatcher(t *testing.T) {
	r := newRig(t, nil)
	log := r.applier.Events()
	stream, err := r.events.Watch(t.Context(), &controlv1.WatchRequest{FromSequence: new(uint64), Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	log.Publish(storeEvent("first"))
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		log.Publish(storeEvent(strings.Repeat("x", 1000)))
	}
	for err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, err, codes.ResourceExhausted, "reader too slow")
	if info, _ := details(err); info.GetReason() != "SLOW_READER" || info.GetMetadata()["next_sequence"] == "" {
		t.Errorf("info %v", info)
	}
}
