package control

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// defaultEvents is how many events are kept for those who resume.
const defaultEvents = 4096

// EventLog is a ring of the last events of this process. Publishers never wait:
// a reader has a place in the ring and no queue, and one whose place has been
// written over has lost it. Numbers count from 1; the instance, drawn at random
// when the process starts, says which process counted.
type EventLog struct {
	node     string
	instance string
	now      func() time.Time

	mu      sync.Mutex
	ring    []*controlv1.Event // event n is at n-1 modulo its length
	last    uint64             // number of the newest; 0: none
	version string             // of the active snapshot
	changed chan struct{}      // closed at the next event; nil: nobody waits
}

// NewEventLog returns a log for the node of that name which keeps size events;
// 0 means 4096.
func NewEventLog(node string, size int) *EventLog {
	if size <= 0 {
		size = defaultEvents
	}
	var id [16]byte
	_, _ = rand.Read(id[:])
	return &EventLog{
		node: node, instance: hex.EncodeToString(id[:]), now: time.Now,
		ring: make([]*controlv1.Event, size),
	}
}

// Instance is the identity of the process that counts.
func (l *EventLog) Instance() string { return l.instance }

// Node is the node's name.
func (l *EventLog) Node() string { return l.node }

// Last is the number of the newest event; 0 before the first.
func (l *EventLog) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Publish numbers an event and hands it to all readers. It fills in the
// sequence, the instance and the node, and the time and the snapshot version if
// they are not given. The event belongs to the log from then on.
func (l *EventLog) Publish(e *controlv1.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.Sequence, e.Instance, e.Node = l.last, l.instance, l.node
	if e.Time == nil {
		e.Time = timestamppb.New(l.now())
	}
	if e.SnapshotVersion == "" {
		e.SnapshotVersion = l.version
	}
	l.ring[(l.last-1)%uint64(len(l.ring))] = e
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// setVersion says which snapshot is active from now on.
func (l *EventLog) setVersion(version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = version
}

// oldest is the number of the oldest event kept, or that of the next one if
// there is none. The caller holds mu.
func (l *EventLog) oldest() uint64 {
	if size := uint64(len(l.ring)); l.last > size {
		return l.last - size + 1
	}
	return 1
}

// gap is an event that says what is missing; 0 means unknown. It has no number
// of its own.
func (l *EventLog) gap(from, to uint64) *controlv1.Event {
	return &controlv1.Event{
		Instance: l.instance, Node: l.node, Time: timestamppb.New(l.now()), SnapshotVersion: l.version,
		Detail: &controlv1.Event_Gap{Gap: &controlv1.GapEvent{From: from, To: to}},
	}
}

// EventReader is a place in the log. It is used by one goroutine.
type EventReader struct {
	log  *EventLog
	next uint64           // number of the next event to read
	gap  *controlv1.Event // to be read first
}

// ReadNew reads what happens from now on.
func (l *EventLog) ReadNew() *EventReader {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &EventReader{log: l, next: l.last + 1}
}

// ReadFrom reads from the event numbered from on; 0 means all that are kept. If
// some of these are gone, or if the number was counted by another instance, the
// first event read is a gap. An empty instance is not checked.
func (l *EventLog) ReadFrom(from uint64, instance string) *EventReader {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.oldest()
	r := &EventReader{log: l, next: oldest}
	switch {
	case instance != "" && instance != l.instance, from > l.last+1:
		r.gap = l.gap(0, 0)
	case from == 0:
	case from < oldest:
		r.gap = l.gap(from, oldest-1)
	default:
		r.next = from
	}
	return r
}

// Next returns up to limit events and waits for the first one, until ctx ends.
// A SlowReaderError says that the reader lost its place; it reads no more.
func (r *EventReader) Next(ctx context.Context, limit int) ([]*controlv1.Event, error) {
	for {
		events, changed, err := r.take(limit)
		if err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Ready returns up to limit events that are there, without waiting.
func (r *EventReader) Ready(limit int) ([]*controlv1.Event, error) {
	events, _, err := r.take(limit)
	return events, err
}

func (r *EventReader) take(limit int) (events []*controlv1.Event, changed <-chan struct{}, err error) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.next < l.oldest() {
		return nil, nil, &SlowReaderError{Next: r.next, Oldest: l.oldest()}
	}
	if r.gap != nil {
		events, r.gap = append(events, r.gap), nil
	}
	for ; len(events) < limit && r.next <= l.last; r.next++ {
		events = append(events, l.ring[(r.next-1)%uint64(len(l.ring))])
	}
	if len(events) == 0 && l.changed == nil {
		l.changed = make(chan struct{})
	}
	return events, l.changed, nil
}
