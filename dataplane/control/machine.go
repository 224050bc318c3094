package control

// ticket names one apply within the process.
type ticket uint64

// proposal is a compiled snapshot that wants to become active.
type proposal struct {
	id          ticket
	digest      string
	term        uint64
	base        string // digest that must be active; "": any
	allowShrink bool
	shrink      string // how it shrinks the active one too much; "": it does not
}

// verdict is what becomes of a proposal.
type verdict uint8

const (
	verdictRun       verdict = iota // it has the lane: prepare, persist, commit
	verdictWait                     // it is next, once the lane is free
	verdictJoin                     // the same content is under way: share its outcome
	verdictUnchanged                // the same content is active: nothing happens
	verdictRefused
)

// decision is a verdict with what goes with it.
type decision struct {
	verdict    verdict
	join       ticket   // with verdictJoin
	superseded []ticket // to be cancelled and told, with any verdict but verdictRefused and verdictJoin
	refusal    *Refusal // with verdictRefused
}

// machine decides who may write and what runs next. It has no clock, lock or
// goroutine; the Applier calls it under its mutex and does what it says.
//
// At most one proposal has the lane, and at most one waits for it. A proposal
// in the lane can be superseded until it is sealed; then it will be active, and
// those who came later are decided again against it.
type machine struct {
	term   uint64 // the highest seen
	active string // digest; "": nothing is active

	lane  *proposal
	stage laneStage // of lane, if there is one
	next  *proposal
}

type laneStage uint8

const (
	laneOpen       laneStage = iota // can be superseded
	laneSuperseded                  // what was made for it is being undone
	laneSealed                      // past the point of no return
)

// fence admits a writer by its term, and remembers a higher one.
func (m *machine) fence(term uint64) *Refusal {
	if term < m.term {
		return staleTerm(term, m.term)
	}
	m.term = term
	return nil
}

// compare holds a base digest against the active one.
func (m *machine) compare(base string) *Refusal {
	if base == "" || base == m.active {
		return nil
	}
	return baseMismatch(base, m.active)
}

// admit decides over a compiled proposal.
func (m *machine) admit(p proposal) decision {
	if p.term < m.term {
		return decision{verdict: verdictRefused, refusal: staleTerm(p.term, m.term)}
	}
	if t, ok := m.underWay(p.digest); ok {
		return decision{verdict: verdictJoin, join: t}
	}
	if m.lane != nil && m.stage == laneSealed {
		d := decision{verdict: verdictWait, superseded: m.supersede()}
		m.next = &p
		return d
	}
	return m.enter(p)
}

// enter decides over a proposal that nothing sealed stands before.
func (m *machine) enter(p proposal) decision {
	if r := m.compare(p.base); r != nil {
		return decision{verdict: verdictRefused, refusal: r}
	}
	if p.digest == m.active {
		return decision{verdict: verdictUnchanged, superseded: m.supersede()}
	}
	if p.shrink != "" && !p.allowShrink {
		return decision{verdict: verdictRefused, refusal: shrinkRefused(p.shrink)}
	}
	d := decision{verdict: verdictRun, superseded: m.supersede()}
	if m.lane != nil {
		d.verdict = verdictWait
		m.next = &p
		return d
	}
	m.lane, m.stage = &p, laneOpen
	return d
}

// underWay finds the newest admitted proposal that is still wanted, if it has
// this content.
func (m *machine) underWay(digest string) (ticket, bool) {
	newest := m.next
	if newest == nil && m.stage != laneSuperseded {
		newest = m.lane
	}
	if newest == nil || newest.digest != digest {
		return 0, false
	}
	return newest.id, true
}

// supersede gives up what is admitted and not sealed. The lane stays taken
// until finish, as what was made for it has to be undone.
func (m *machine) supersede() []ticket {
	var ids []ticket
	if m.lane != nil && m.stage == laneOpen {
		ids = append(ids, m.lane.id)
		m.stage = laneSuperseded
	}
	if m.next != nil {
		ids = append(ids, m.next.id)
		m.next = nil
	}
	return ids
}

// seal takes the lane past the point of no return. It is refused if the
// proposal was superseded in the meantime, or its writer fenced off.
func (m *machine) seal() *Refusal {
	if m.stage == laneSuperseded {
		return superseded()
	}
	if m.lane.term < m.term {
		return staleTerm(m.lane.term, m.term)
	}
	m.stage = laneSealed
	return nil
}

// finish frees the lane, after commit or not, and returns who waited. That one
// is not admitted yet: what is active may have changed.
func (m *machine) finish(committed bool) (next *proposal) {
	if committed {
		m.active = m.lane.digest
	}
	next, m.lane, m.next, m.stage = m.next, nil, nil, laneOpen
	return next
}
