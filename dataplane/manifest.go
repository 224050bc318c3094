package dataplane

import (
	"fmt"
	"strings"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// maxRefusal bounds what is repeated of why a manifest is refused, in bytes.
const maxRefusal = 400

// ManifestRefused says that the file that the active snapshot should follow is
// refused: what runs is degraded, for it is not what somebody wrote, until
// ManifestTaken. err has a line for each fault; the first is repeated.
func (s *Server) ManifestRefused(file string, err error) {
	first, rest, _ := strings.Cut(err.Error(), "\n")
	if len(first) > maxRefusal {
		first = strings.ToValidUTF8(first[:maxRefusal], "") + "..."
	}
	reason := "the manifest is refused, what ran before runs on: " + first
	if rest != "" {
		reason += fmt.Sprintf(" (and %d more)", strings.Count(rest, "\n")+1)
	}
	s.applier.Degrade(manifestName(file), reason)
}

// ManifestTaken takes back what ManifestRefused said of a file.
func (s *Server) ManifestTaken(file string) { s.applier.Recover(manifestName(file)) }

// manifestName names a manifest among what can be degraded: it is no resource of
// a snapshot, and so no snapshot that comes takes it back.
func manifestName(file string) *controlv1.ResourceName { return &controlv1.ResourceName{Name: file} }
