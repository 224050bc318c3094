package control

import (
	"context"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// Node carries out what is decided here: the data plane itself.
type Node interface {
	// Prepare makes all that s needs and the running snapshot does not have:
	// it binds listeners and makes and warms clusters. It disturbs nothing that
	// is live, and undoes what it did if it fails or ctx ends. A FieldError, or
	// several joined, says which field is at fault.
	Prepare(ctx context.Context, s *snapshot.Snapshot) (Prepared, error)

	// Status says what the node itself knows: its name, program, labels,
	// listeners, all its clusters sorted by name, connections and requests.
	// What it does not fill in of the snapshot, the term, the store and the
	// events is filled in here. The result belongs to the caller.
	Status() *controlv1.StatusResponse
}

// Prepared is a snapshot that can become live at once. Exactly one of its
// methods is called, once.
type Prepared interface {
	// Commit makes it live under this generation. It cannot fail.
	Commit(generation uint64)
	// Abort undoes what Prepare made.
	Abort()
}
