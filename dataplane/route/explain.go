package route

import (
	"net/netip"

	"github.com/headgate/headgate/dataplane/message"
)

// Bounds of an explanation.
const (
	maxCandidates = 1000 // matches under hosts that fit
	maxOtherHosts = 20   // matches under other hosts, listed after them
)

// Explanation says which match a request takes, and why the others do not win.
type Explanation struct {
	Winner     Result
	Found      bool        // there is a winner
	Candidates []Candidate // in the order of precedence; at most 1020
	LeftOut    int         // matches under hosts that fit which are not listed
	OtherHosts int         // matches under other hosts which are not listed
	Steps      int         // map lookups made and matches tried by the lookup
}

// Candidate is one match that might have won.
type Candidate struct {
	Route, Match int // as in Result
	Verdict      Verdict
	Reason       string // such as `header x-canary is "2", not "1"`
}

// Verdict is what became of a candidate.
type Verdict uint8

// The verdicts.
const (
	Lost     Verdict = iota // a condition does not hold
	Shadowed                // all conditions hold, and a match that comes before it won
	Won
)

// String is the verdict in a word.
func (v Verdict) String() string {
	switch v {
	case Won:
		return "won"
	case Shadowed:
		return "shadowed"
	}
	return "lost"
}

// A recorder takes notes of one walk.
type recorder struct {
	first    *group
	failures map[*rule]failure
}

func (rec *recorder) tried(r *rule, f failure) { rec.failures[r] = f }

// Explain makes the same walk as Match and tells what it saw. Matches that the
// walk had no need to try are judged afterwards.
func (t *Table) Explain(req *message.Request, path []byte, source netip.Addr) Explanation {
	if t == nil {
		return Explanation{}
	}
	q := newQuery(req, path, source)
	rec := &recorder{failures: make(map[*rule]failure)}
	n := narrator{q: &q, seen: make(map[*rule]bool)}
	n.winner = t.walk(&q, rec)
	n.out.Steps = q.steps
	if n.winner != nil {
		n.out.Winner, n.out.Found = n.winner.result, true
	}
	for g := rec.first; g != nil; g = g.less {
		n.group(g, rec)
	}
	n.others(t.rules)
	return n.out
}

// A narrator turns the notes of a walk into an explanation.
type narrator struct {
	q      *query
	winner *rule  // nil: none
	under  *group // in which the winner was met; nil before that
	seen   map[*rule]bool
	out    Explanation
}

// group lists the rules of a host that fits, except those listed already under
// a more specific one.
func (n *narrator) group(g *group, rec *recorder) {
	for _, r := range g.rules {
		if n.seen[r] {
			continue
		}
		n.seen[r] = true
		if r == n.winner {
			n.under = g
		}
		if len(n.out.Candidates) >= maxCandidates && r != n.winner {
			n.out.LeftOut++
			continue
		}
		n.candidate(g, r, rec)
	}
}

func (n *narrator) candidate(g *group, r *rule, rec *recorder) {
	f, tried := rec.failures[r]
	if !tried {
		f = r.judge(n.q)
	}
	switch {
	case r == n.winner:
		n.list(r, Won, r.describe(g))
	case f.part != partNone:
		n.list(r, Lost, r.reason(n.q, f))
	default:
		n.list(r, Shadowed, n.outranked(g, r))
	}
}

// judge is check for a rule that the index passed over.
func (r *rule) judge(q *query) failure {
	if !r.path.matches(q.path) {
		return failure{part: partPath}
	}
	return r.check(q)
}

// others lists a few of the rules whose hosts do not fit and counts the rest.
func (n *narrator) others(rules []*rule) {
	listed := 0
	for _, r := range rules {
		switch {
		case n.seen[r]:
		case listed == maxOtherHosts:
			n.out.OtherHosts++
		default:
			listed++
			n.list(r, Lost, r.reason(n.q, failure{part: partHost}))
		}
	}
}

func (n *narrator) list(r *rule, v Verdict, reason string) {
	n.out.Candidates = append(n.out.Candidates, Candidate{
		Route: r.result.Route, Match: r.result.Match, Verdict: v, Reason: reason,
	})
}
