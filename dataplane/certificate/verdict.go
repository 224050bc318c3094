package certificate

import (
	"fmt"
	"time"
)

// Event says how a certificate or bundle fares. The first one about a thing
// tells of trouble, or that an authority has given it.
type Event struct {
	Kind     Kind
	Name     string
	Healthy  bool      // what is in use works, and is what it should be
	Cause    string    // in one sentence for people; "": it is well again
	Expires  time.Time // when what is in use does; zero: nothing is but a stand-in
	Obtained bool      // an authority has just given it
}

// verdict is an event but for its subject. The zero value is that of what is new.
type verdict struct {
	trouble bool
	cause   string
}

// soon is when before its end a certificate is spoken of: it should have been
// renewed by then, for renewal is usual when a third of the time is left.
const soon = 7 * 24 * time.Hour

// sure is how many reads must find a thing broken before it is spoken of: one
// may fall between the writing of a chain and that of its key.
const sure = 2

// doubtful reports whether another read must tell.
func (m *material) doubtful() bool { return 0 < m.failed && m.failed < sure }

// judge says how a thing fares.
func (m *material) judge(now time.Time) verdict {
	end := m.expires.UTC().Format(time.DateTime)
	switch {
	case m.expires.IsZero():
		return m.judgeStandIn()
	case !now.Before(m.expires):
		return verdict{trouble: true, cause: m.andBroken(fmt.Sprintf("expired on %s", end))}
	case m.lacks != "":
		return verdict{trouble: true, cause: fmt.Sprintf("%s; the one from before is used, which expires on %s", m.lacks, end)}
	case m.failed >= sure:
		return verdict{trouble: true, cause: fmt.Sprintf("cannot be read again: %v; the one from before is used, which expires on %s", m.broken, end)}
	case m.doubtful():
		return m.said
	case m.expires.Sub(now) < m.soon:
		return verdict{cause: fmt.Sprintf("expires %s, on %s", within(m.expires.Sub(now)), end)}
	}
	return verdict{}
}

// judgeStandIn is judge for what an authority has not given yet.
func (m *material) judgeStandIn() verdict {
	if m.lacks == "" {
		return verdict{} // nobody uses it
	}
	return verdict{trouble: true, cause: m.lacks + "; until it is there, a stand-in is shown that no client trusts"}
}

// within is a time from now in whole days, and the last day in hours.
func within(d time.Duration) string {
	const day = 24 * time.Hour
	switch days := d / day; {
	case days >= 2:
		return fmt.Sprintf("in %d days", days)
	case days == 1:
		return "in one day"
	case d >= 2*time.Hour:
		return fmt.Sprintf("in %d hours", d/time.Hour)
	}
	return fmt.Sprintf("in %d minutes", d/time.Minute)
}

func (m *material) andBroken(cause string) string {
	if m.lacks != "" {
		return cause + ", and " + m.lacks
	}
	if m.failed < sure {
		return cause
	}
	return fmt.Sprintf("%s, and cannot be read again: %v", cause, m.broken)
}

// report is the event to be sent, if there is anything new to say.
func (m *material) report(now time.Time) (Event, bool) {
	v := m.judge(now)
	if v == m.said {
		return Event{}, false
	}
	m.said = v
	return Event{Kind: m.kind, Name: m.name, Healthy: !v.trouble, Cause: v.cause, Expires: m.expires}, true
}
