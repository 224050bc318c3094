package ctl

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// maxChangeRunes bounds how much of one field's change is shown.
const maxChangeRunes = 160

// changes prints differences, one line a resource:
//
//   - route users
//     ~ cluster users (endpoints[1].weight: 1 -> 3)
//   - route old
type changes struct {
	out    io.Writer
	colour bool
	values map[changed][]snapshot.FieldChange // old and new values, as far as they are known
}

// changed names a resource.
type changed struct {
	kind controlv1.ResourceKind
	name string
}

// Colours of a terminal (ECMA-48 SGR).
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	plain  = "\x1b[0m"
)

// compare takes the values of changed fields from two snapshots, which may be
// parts only. Secrets are left out.
func (c *changes) compare(before, after *configv1.Snapshot) {
	c.values = map[changed][]snapshot.FieldChange{}
	if before == nil || after == nil {
		return
	}
	for _, change := range snapshot.Changes(snapshot.Redact(before), snapshot.Redact(after), true) {
		if change.Change == snapshot.Changed {
			c.values[changed{change.Kind, change.Name}] = change.Fields
		}
	}
}

func (c *changes) write(d *controlv1.Diff) {
	c.section("+", green, d.GetAdded(), d.GetAddedCount(), "added")
	c.section("~", yellow, d.GetChanged(), d.GetChangedCount(), "changed")
	c.section("-", red, d.GetRemoved(), d.GetRemovedCount(), "removed")
}

func (c *changes) section(sign, colour string, list []*controlv1.Change, count uint32, what string) {
	for _, change := range list {
		c.line(colour, sign+" "+c.text(change))
	}
	if left := int(count) - len(list); left > 0 {
		c.line(colour, fmt.Sprintf("%s ... and %d more %s", sign, left, what))
	}
}

func (c *changes) line(colour, text string) {
	if c.colour {
		text = colour + text + plain
	}
	fmt.Fprintln(c.out, text)
}

// text is one change. A single field stands in its line, several below it.
func (c *changes) text(change *controlv1.Change) string {
	k, _ := kindOf(change.GetKind())
	title := strings.TrimSpace(k.singular + " " + printable(change.GetName()))
	values := c.values[changed{change.GetKind(), change.GetName()}]
	switch fields := change.GetFieldPaths(); len(fields) {
	case 0:
		return title
	case 1:
		return fmt.Sprintf("%s (%s)", title, fieldChange(values, fields[0]))
	default:
		for _, path := range fields {
			title += "\n    " + fieldChange(values, path)
		}
		return title
	}
}

// fieldChange is "limits.maxRequests: 10 -> 20", or the path alone where the
// values are not at hand.
func fieldChange(values []snapshot.FieldChange, path string) string {
	if path == "(order)" {
		return "order"
	}
	for _, value := range values {
		if value.Path == path {
			return clip(printable(value.String()), maxChangeRunes)
		}
	}
	return printable(path)
}

// clip shortens what is too long for a line.
func clip(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-3]) + "..."
}
