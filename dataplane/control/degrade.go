package control

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// maxDegradations bounds what is remembered of what does not work; more than
// that are not said.
const maxDegradations = 1000

// degradations are what does not work in the active snapshot, by resource. The
// zero value is ready. Applier.mu guards it.
type degradations struct {
	list    map[resourceKey]*controlv1.Degradation
	changed chan struct{} // closed at the next change; nil: nobody waits
}

// set reports whether that is news.
func (d *degradations) set(resource *controlv1.ResourceName, reason string, now time.Time) bool {
	key := keyOf(resource)
	old := d.list[key]
	if old.GetReason() == reason && old != nil {
		return false
	}
	if old == nil && len(d.list) >= maxDegradations {
		return false
	}
	since := timestamppb.New(now)
	if old != nil {
		since = old.Since
	}
	if d.list == nil {
		d.list = map[resourceKey]*controlv1.Degradation{}
	}
	d.list[key] = &controlv1.Degradation{Resource: resource, Reason: reason, Since: since}
	return true
}

func (d *degradations) clear(resource *controlv1.ResourceName) bool {
	key := keyOf(resource)
	if d.list[key] == nil {
		return false
	}
	delete(d.list, key)
	return true
}

// keep drops what concerns resources that are gone.
func (d *degradations) keep(s *configv1.Snapshot) {
	if len(d.list) == 0 {
		return
	}
	present := index(s)
	for key := range d.list {
		if _, ok := present[key]; !ok && key.kind != controlv1.ResourceKind_RESOURCE_KIND_UNSPECIFIED {
			delete(d.list, key)
			d.wake()
		}
	}
}

func (d *degradations) wake() {
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// all lists them by kind and name.
func (d *degradations) all() []*controlv1.Degradation {
	out := make([]*controlv1.Degradation, 0, len(d.list))
	for _, e := range d.list {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *controlv1.Degradation) int {
		return cmp.Or(
			cmp.Compare(a.Resource.GetKind(), b.Resource.GetKind()),
			cmp.Compare(a.Resource.GetName(), b.Resource.GetName()),
		)
	})
	return out
}

// Degrade says that a resource of the active snapshot does not work, and why,
// in one sentence for people. A nil resource is the node as a whole.
func (a *Applier) Degrade(resource *controlv1.ResourceName, reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.degraded.set(resource, reason, time.Now()) {
		a.degradedChanged()
	}
}

// Recover takes back what Degrade said of a resource.
func (a *Applier) Recover(resource *controlv1.ResourceName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.degraded.clear(resource) {
		a.degradedChanged()
	}
}

// degradedChanged publishes what does not work. While a snapshot is being made
// live that waits until it is ACTIVE, for it may be about that one. The caller
// holds mu.
func (a *Applier) degradedChanged() {
	if a.committing {
		a.unpublished = true
		return
	}
	a.publishDegraded()
	a.degraded.wake()
}

// endCommit publishes what changed meanwhile. The caller holds mu.
func (a *Applier) endCommit() {
	if a.committing = false; a.unpublished {
		a.unpublished = false
		a.publishDegraded()
		a.degraded.wake()
	}
}

// publishDegraded puts the state into the log. The caller holds mu.
func (a *Applier) publishDegraded() {
	u := a.degradedUpdate()
	a.publish(u)
	a.logState(u)
}

// Degraded is the state DEGRADED with all that does not work now.
func (a *Applier) Degraded() *controlv1.StateUpdate {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.degradedUpdate()
}

func (a *Applier) degradedUpdate() *controlv1.StateUpdate {
	return &controlv1.StateUpdate{
		State:        controlv1.SnapshotState_SNAPSHOT_STATE_DEGRADED,
		Snapshot:     a.active.identity(),
		Degradations: a.degraded.all(),
	}
}

// Degradations returns what does not work now, and a channel that is closed
// when that changes.
func (a *Applier) Degradations() (list []*controlv1.Degradation, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.degraded.changed == nil {
		a.degraded.changed = make(chan struct{})
	}
	return a.degraded.all(), a.degraded.changed
}
