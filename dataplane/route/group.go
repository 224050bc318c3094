package route

// A group holds the rules of one host pattern, indexed by path. A rule is in
// exactly one bucket, every bucket is in the order of precedence, and a path
// meets at most one exact bucket, one bucket for each of its prefixes, the
// regexes and the rules without a path.
type group struct {
	host  string // as written; "" is any
	less  *group // of the next less specific host that covers this one; nil after "any"
	rules []*rule

	exact    map[string][]*rule
	prefixes node
	regexes  []*rule
	rest     []*rule
}

// add takes rules in the order of precedence.
func (g *group) add(r *rule) {
	if n := len(g.rules); n > 0 && g.rules[n-1] == r {
		return // the route names the host twice
	}
	g.rules = append(g.rules, r)
	switch r.path.kind {
	case PathExact:
		if g.exact == nil {
			g.exact = make(map[string][]*rule)
		}
		g.exact[r.path.value] = append(g.exact[r.path.value], r)
	case PathPrefix:
		g.prefixes.add(r)
	case PathRegex:
		g.regexes = append(g.regexes, r)
	default:
		g.rest = append(g.rest, r)
	}
}

// find returns the rule of the group that wins, or nil. Buckets are visited in
// the order in which they win when priorities are equal; because they need not
// be, the best rule so far is carried along, and a bucket is left as soon as it
// has only worse ones.
func (g *group) find(q *query, rec *recorder) *rule {
	var best *rule
	if g.exact != nil {
		q.steps++
		best = better(best, g.exact[string(q.path)], q, rec)
	}
	for n := g.prefixes.deepest(q); n != nil; n = n.up {
		best = better(best, n.rules, q, rec)
	}
	best = better(best, g.regexes, q, rec)
	return better(best, g.rest, q, rec)
}

// better returns the first rule of a bucket that holds, unless best outranks
// it.
func better(best *rule, bucket []*rule, q *query, rec *recorder) *rule {
	for _, r := range bucket {
		if best != nil && best.rank < r.rank {
			break
		}
		f := r.check(q)
		if rec != nil {
			rec.tried(r, f)
		}
		if f.part == partNone {
			return r
		}
	}
	return best
}
