package ctl

import (
	"slices"
	"strings"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/ctl/manifest"
	"github.com/headgate/headgate/dataplane/snapshot"
)

// maxFaultsShown bounds how many faults are shown. All are counted.
const maxFaultsShown = 100

// reading is a manifest without faults.
type reading struct {
	*manifest.Manifest
	compiled *snapshot.Snapshot
	warnings []snapshot.Violation // shown already
}

// read reads a manifest and compiles it. Faults and warnings are shown on
// stderr, with a summary that says what did not come of it. label replaces the
// manifest's version, unless it is empty.
func (c *CLI) read(files []string, label, consequence string) (*reading, error) {
	m, faults := manifest.ReadWith(c.stdin, files...)
	if len(faults) > 0 {
		c.showFaults(faults)
		return nil, c.giveUp(len(faults), consequence)
	}
	if label != "" {
		m.Snapshot.Version = label
	}
	compiled, violations := snapshot.Compile(m.Snapshot)
	c.showFaults(m.Faults(violations))
	if compiled == nil {
		return nil, c.giveUp(countErrors(violations), consequence)
	}
	if len(resourcesOf(m.Snapshot)) == 0 {
		c.say("warning: %s: there is nothing in it, and where it runs nothing is served", strings.Join(files, ", "))
	}
	return &reading{Manifest: m, compiled: compiled, warnings: violations}, nil
}

func (c *CLI) showFaults(faults []manifest.Fault) {
	colour := c.colour(c.stderr)
	for _, f := range faults[:min(len(faults), maxFaultsShown)] {
		_ = f.Write(c.stderr, colour)
	}
	if left := len(faults) - maxFaultsShown; left > 0 {
		c.say("... and %d more", left)
	}
}

// giveUp says how many faults there are and what did not come of it.
func (c *CLI) giveUp(faults int, consequence string) error {
	if consequence != "" {
		consequence = "; " + consequence
	}
	c.say("%s%s", plural(faults, "fault"), consequence)
	return errSaid
}

func countErrors(violations []snapshot.Violation) int {
	n := 0
	for _, v := range violations {
		if !v.Warning {
			n++
		}
	}
	return n
}

// showViolations shows what a node found, at the lines of the manifest if there
// is one.
func (c *CLI) showViolations(found []*controlv1.Violation, r *reading) {
	violations := make([]snapshot.Violation, len(found))
	for i, v := range found {
		violations[i] = snapshot.Violation{
			Path: printable(v.GetFieldPath()), Message: printable(v.GetMessage()), Rule: v.GetRuleId(),
			Warning: v.GetSeverity() == controlv1.Severity_SEVERITY_WARNING,
		}
	}
	if r != nil {
		violations = slices.DeleteFunc(violations, func(v snapshot.Violation) bool { return slices.Contains(r.warnings, v) })
		c.showFaults(r.Faults(violations))
		return
	}
	for _, v := range violations {
		_ = manifest.Fault{FieldPath: v.Path, Message: v.Message, Warning: v.Warning}.Write(c.stderr, c.colour(c.stderr))
	}
}

// wireViolations are violations as the API has them.
func wireViolations(list []snapshot.Violation) []*controlv1.Violation {
	out := make([]*controlv1.Violation, len(list))
	for i, v := range list {
		severity := controlv1.Severity_SEVERITY_ERROR
		if v.Warning {
			severity = controlv1.Severity_SEVERITY_WARNING
		}
		out[i] = &controlv1.Violation{FieldPath: v.Path, Message: v.Message, RuleId: v.Rule, Severity: severity}
	}
	return out
}

// writeManifest prints a snapshot, or a part of one, as a manifest.
func (c *CLI) writeManifest(s *configv1.Snapshot) error {
	if c.flags.output == formatJSON {
		return manifest.WriteJSON(c.stdout, s)
	}
	return manifest.Write(c.stdout, s)
}
