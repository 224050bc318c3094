package control

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// Bounds of what is begun and not committed, in bytes on the wire.
const (
	maxSnapshot = 64 << 20  // one snapshot
	maxStaged   = 256 << 20 // all streams together
)

// budget is what all streams together may have begun.
type budget struct{ used atomic.Int64 }

func (b *budget) take(n int64) bool {
	if b.used.Add(n) > maxStaged {
		b.used.Add(-n)
		return false
	}
	return true
}

// staging gathers the pieces of one snapshot. Nothing of it is applied before
// it is complete. It is used by one goroutine.
type staging struct {
	budget *budget
	begin  *controlv1.PushBegin // nil: nothing is begun

	resources []*controlv1.Resource
	removed   []*controlv1.ResourceName
	size      int64
}

// start drops what was begun.
func (s *staging) start(begin *controlv1.PushBegin) {
	s.drop()
	s.begin = begin
}

func (s *staging) drop() {
	s.budget.used.Add(-s.size)
	*s = staging{budget: s.budget}
}

// add takes a piece.
func (s *staging) add(piece *controlv1.PushResources) error {
	if s.begin == nil {
		return status.Error(codes.InvalidArgument, "resources: no snapshot was begun")
	}
	if len(piece.Removed) > 0 && !s.begin.Patch {
		return status.Error(codes.InvalidArgument, "resources.removed: only a patch removes")
	}
	size := int64(proto.Size(piece))
	if s.size+size > maxSnapshot {
		return status.Errorf(codes.ResourceExhausted, "the snapshot is over the bound of %d bytes", maxSnapshot)
	}
	if !s.budget.take(size) {
		return status.Errorf(codes.ResourceExhausted, "snapshots of over %d bytes are on their way to this node; try again", maxStaged)
	}
	s.size += size
	s.resources = append(s.resources, piece.Resources...)
	s.removed = append(s.removed, piece.Removed...)
	return nil
}

// finish makes the snapshot and is empty again. A patch is made on active, of
// which it needs the digest.
func (s *staging) finish(commit *controlv1.PushCommit, active *snapshot.Snapshot) (*configv1.Snapshot, error) {
	defer s.drop()
	if s.begin == nil {
		return nil, status.Error(codes.InvalidArgument, "commit: no snapshot was begun")
	}
	if want := commit.ExpectedResources; want != 0 && want != uint64(len(s.resources)) {
		return nil, status.Errorf(codes.InvalidArgument,
			"commit.expected_resources: %d came, not %d", len(s.resources), want)
	}
	if s.begin.Patch {
		return s.patch(active)
	}
	out := &configv1.Snapshot{Version: s.begin.Version}
	telemetry := false
	for i, r := range s.resources {
		if r.GetTelemetry() != nil && telemetry {
			return nil, status.Errorf(codes.InvalidArgument, "resources[%d]: telemetry came twice", i)
		}
		telemetry = telemetry || r.GetTelemetry() != nil
		if resourceKeyOf(r).kind == controlv1.ResourceKind_RESOURCE_KIND_UNSPECIFIED {
			return nil, status.Errorf(codes.InvalidArgument, "resources[%d]: of no kind that this node knows", i)
		}
		appendResource(out, r)
	}
	return out, nil
}

// patch changes the active snapshot. What is not changed is shared with it.
func (s *staging) patch(active *snapshot.Snapshot) (*configv1.Snapshot, error) {
	base := s.begin.GetOptions().GetBaseDigest()
	if base == "" {
		return nil, status.Error(codes.InvalidArgument, "begin.options.base_digest: a patch needs it")
	}
	if active == nil {
		return nil, baseMismatch(base, "")
	}
	if active.Digest != base {
		return nil, baseMismatch(base, active.Digest)
	}
	changes, err := s.changes()
	if err != nil {
		return nil, err
	}
	out := &configv1.Snapshot{Version: s.begin.Version}
	for r := range resources(active.Source) {
		c := changes[resourceKeyOf(r)]
		if c == nil {
			appendResource(out, r)
			continue
		}
		c.found = true
		if c.resource != nil {
			appendResource(out, c.resource)
		}
	}
	return out, s.appendNew(out, changes)
}

// change is what a patch does to a name. A name that goes and comes again has
// its new place at the end.
type change struct {
	resource *controlv1.Resource // what takes its place; nil: it goes
	removed  bool
	found    bool // the base has it
}

func (s *staging) changes() (map[resourceKey]*change, error) {
	all := make(map[resourceKey]*change, len(s.resources)+len(s.removed))
	for _, n := range s.removed {
		if all[keyOf(n)] != nil {
			return nil, status.Errorf(codes.InvalidArgument, "resources.removed: %s %q is there twice", n.Kind, n.Name)
		}
		all[keyOf(n)] = &change{removed: true}
	}
	seen := make(map[resourceKey]bool, len(s.resources))
	for i, r := range s.resources {
		key := resourceKeyOf(r)
		if key.kind == controlv1.ResourceKind_RESOURCE_KIND_UNSPECIFIED {
			return nil, status.Errorf(codes.InvalidArgument, "resources[%d]: of no kind that this node knows", i)
		}
		if seen[key] {
			return nil, status.Errorf(codes.InvalidArgument, "resources[%d]: %s %q came twice", i, key.kind, key.name)
		}
		seen[key] = true
		if all[key] == nil {
			all[key] = &change{resource: r}
		}
	}
	return all, nil
}

// appendNew adds what the base does not have, in the order it came, and finds
// removals of what it does not have.
func (s *staging) appendNew(out *configv1.Snapshot, changes map[resourceKey]*change) error {
	for _, n := range s.removed {
		if !changes[keyOf(n)].found {
			return &Refusal{
				Reason: ReasonInvalid,
				Text:   fmt.Sprintf("resources.removed: the base has no %s %q", n.Kind, n.Name),
			}
		}
	}
	for _, r := range s.resources {
		if c := changes[resourceKeyOf(r)]; c.removed || !c.found {
			appendResource(out, r)
		}
	}
	return nil
}
