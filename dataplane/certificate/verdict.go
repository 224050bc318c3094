package certificate

import (
	"fmt"
	"time"
)

// Event says how a certificate or bundle fares. The first one about a thing
// tells of trouble.
type Event struct {
	Kind    Kind
	Name    string
	Healthy bool      // what is in use works, and is what the files say
	Cause   string    // in one sentence for people; "": it is well again
	Expires time.Time // when what is in use does
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
	case !now.Before(m.expires):
		return verdict{trouble: true, cause: m.andBroken(fmt.Sprintf("expired on %s", end))}
	case m.failed >= sure:
		return verdict{trouble: true, cause: fmt.Sprintf("cannot be read again: %v; the one from before is used, which expires on %s", m.broken, end)}
	case m.doubtful():
		return m.said
	case m.expires.Sub(now) < soon:
		return verdict{cause: fmt.Sprintf("expires on %s", end)}
	}
	return verdict{}
}

func (m *material) andBroken(cause string) string {
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
