package snapshot

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/route"
)

// defaultCandidates is how many candidates an explanation lists if not asked
// for another number.
const defaultCandidates = 100

// InvalidError is a configuration that was refused.
type InvalidError struct{ Violations []Violation }

// Error is the first error and how many more there are.
func (e *InvalidError) Error() string {
	var first error
	n := 0
	for _, v := range e.Violations {
		if v.Warning {
			continue
		}
		if n++; first == nil {
			first = v
		}
	}
	if n > 1 {
		return fmt.Sprintf("%v (and %d more)", first, n-1)
	}
	return fmt.Sprint(first)
}

// Explain says what a snapshot, or the candidate of the request, would do with
// a request that is described, and why: by the table that routes. The errors
// are *InvalidError for a candidate that is refused, and a plain one for a
// description that is none.
func Explain(s *Snapshot, in *controlv1.ExplainRequest) (*controlv1.ExplainResponse, error) {
	if in.GetCandidate() != nil {
		compiled, violations := CompileFrom(s, in.GetCandidate())
		if compiled == nil {
			return nil, &InvalidError{Violations: violations}
		}
		s = compiled
	}
	if s == nil {
		return nil, errors.New("there is no snapshot to ask")
	}
	listener, err := s.listener(in.GetRequest().GetListener(), in.GetRequest().GetHost())
	if err != nil {
		return nil, err
	}
	x := explainer{snapshot: s, listener: listener}
	if err := x.describe(in.GetRequest()); err != nil {
		return nil, err
	}
	limit := defaultCandidates
	if in.GetMaxCandidates() > 0 {
		limit = int(in.GetMaxCandidates())
	}
	return &controlv1.ExplainResponse{Explanation: x.explain(limit)}, nil
}

// listener finds a listener by name. Without one it is the listener with the port
// of the host, or else the first.
func (s *Snapshot) listener(name, host string) (*Listener, error) {
	if len(s.Listeners) == 0 {
		return nil, errors.New("the snapshot has no listeners")
	}
	known := map[string]*Listener{}
	port := portOf(host)
	for _, l := range s.Listeners {
		if name != "" && l.Name == name || name == "" && port != "" && l.Network == "tcp" && portOf(l.Address) == port {
			return l, nil
		}
		known[l.Name] = l
	}
	if name == "" {
		return s.Listeners[0], nil
	}
	return nil, fmt.Errorf("no listener is named %s: %s", quote(name), suggest(name, "listeners", known))
}

// explainer explains one request.
type explainer struct {
	snapshot *Snapshot
	listener *Listener
	request  message.Request
	source   netip.Addr
	path     []byte // normalized
	refusal  string // why it is not routed at all
}

// describe makes the head that would have been read from the wire.
func (x *explainer) describe(in *controlv1.RequestDescription) error {
	x.source = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if in.GetSourceAddress() != "" {
		source, err := netip.ParseAddr(in.GetSourceAddress())
		if err != nil {
			return fmt.Errorf("%s is not an IP address", quote(in.GetSourceAddress()))
		}
		x.source = source.WithZone("").Unmap()
	}
	method := orString(in.GetMethod(), "GET")
	target := orString(in.GetPath(), "/")
	req := &x.request
	req.MethodName, req.Target = []byte(method), []byte(target)
	req.Method = message.ParseMethod(req.MethodName)
	req.HTTPS = in.GetScheme() == "https"
	req.Major, req.Minor = 1, 1
	path, query, hasQuery := strings.Cut(target, "?")
	req.Path, req.Query, req.HasQuery = []byte(path), []byte(query), hasQuery
	x.fields(in)
	x.normalize(method)
	return nil
}

// fields gives the request its header fields, Host first. A Host among the
// headers stands in for one that is not given.
func (x *explainer) fields(in *controlv1.RequestDescription) {
	host := in.GetHost()
	for _, h := range in.GetHeaders() {
		if host == "" && strings.EqualFold(h.GetName(), "host") {
			host = h.GetValue()
		}
	}
	req := &x.request
	req.Authority = []byte(host)
	req.Host = []byte(withoutPort(host))
	if host != "" {
		req.Fields.Add([]byte("Host"), req.Authority)
	}
	for _, h := range in.GetHeaders() {
		if !strings.EqualFold(h.GetName(), "host") {
			req.Fields.Add([]byte(h.GetName()), []byte(strings.Trim(h.GetValue(), " \t")))
		}
	}
}

// portOf is the port of an authority or an address, or "".
func portOf(authority string) string {
	return strings.TrimPrefix(authority[len(withoutPort(authority)):], ":")
}

// withoutPort cuts the port off an authority; IPv6 addresses keep their brackets.
func withoutPort(authority string) string {
	if colon := strings.LastIndexByte(authority, ':'); colon > strings.LastIndexByte(authority, ']') {
		return authority[:colon]
	}
	return authority
}

// normalize finds out whether the request would be routed at all.
func (x *explainer) normalize(method string) {
	var err error
	x.path, err = message.NormalizePath(nil, x.request.Path, x.listener.MergeSlashes)
	switch {
	case !isToken(method):
		x.refusal = "400: " + quote(method) + " is not a method"
	case err != nil:
		x.refusal = "400: " + err.Error()
	case !strings.HasPrefix(string(x.request.Path), "/"):
		x.refusal = "400: the path does not begin with /"
	case len(x.request.Target) > x.listener.MaxTargetBytes:
		x.refusal = fmt.Sprintf("414: the target is longer than %d bytes", x.listener.MaxTargetBytes)
	case x.request.Fields.Len() > x.listener.MaxHeaders:
		x.refusal = fmt.Sprintf("431: there are more than %d header fields", x.listener.MaxHeaders)
	}
}

func (x *explainer) explain(limit int) *controlv1.Explanation {
	out := &controlv1.Explanation{
		Listener:        x.listener.Name,
		NormalizedHost:  strings.ToLower(string(x.request.Host)),
		NormalizedPath:  string(x.path),
		RouteCount:      uint32(len(x.snapshot.Routes)),
		SnapshotVersion: x.snapshot.Version,
		Refusal:         x.refusal,
	}
	if x.refusal != "" {
		return out
	}
	told := x.listener.Table.Explain(&x.request, x.path, x.source)
	slices.SortStableFunc(told.Candidates, func(a, b route.Candidate) int { return matched(b) - matched(a) })
	for _, c := range told.Candidates[:min(limit, len(told.Candidates))] {
		out.Candidates = append(out.Candidates, x.candidate(c))
	}
	if told.Found {
		won := x.snapshot.Routes[told.Winner.Route]
		out.Route, out.RouteIndex = won.Name, uint32(won.Index)
		out.MatchIndex = matchIndex(told.Winner.Match)
		out.Action = x.action(won, told.Winner.PrefixLen)
	}
	return out
}

// matched puts the candidates that match before the others.
func matched(c route.Candidate) int {
	if c.Verdict == route.Lost {
		return 0
	}
	return 1
}

func matchIndex(i int) *uint32 {
	if i < 0 {
		return nil
	}
	n := uint32(i)
	return &n
}

var verdicts = map[route.Verdict]controlv1.Verdict{
	route.Won:      controlv1.Verdict_VERDICT_CHOSEN,
	route.Shadowed: controlv1.Verdict_VERDICT_OUTRANKED,
	route.Lost:     controlv1.Verdict_VERDICT_NOT_MATCHED,
}

func (x *explainer) candidate(c route.Candidate) *controlv1.Candidate {
	return &controlv1.Candidate{
		Route:      x.snapshot.Routes[c.Route].Name,
		RouteIndex: uint32(c.Route),
		MatchIndex: matchIndex(c.Match),
		Verdict:    verdicts[c.Verdict],
		Reason:     c.Reason,
	}
}

// action is what the route would do.
func (x *explainer) action(r *Route, prefixLen int) *controlv1.ResultingAction {
	out := &controlv1.ResultingAction{}
	switch {
	case r.Forward != nil:
		out.Action = &controlv1.ResultingAction_Forward{Forward: x.forward(r, prefixLen)}
	case r.Redirect != nil:
		location := r.Redirect.Location(nil, &x.request, x.path)
		out.Action = &controlv1.ResultingAction_Redirect{Redirect: &controlv1.RedirectResult{
			Status: uint32(r.Redirect.Status), Location: string(location),
		}}
	case r.Respond != nil:
		out.Action = &controlv1.ResultingAction_Respond{Respond: &controlv1.RespondResult{
			Status: uint32(r.Respond.Status), BodyBytes: uint32(len(r.Respond.Body)),
		}}
	}
	return out
}

func (x *explainer) forward(r *Route, prefixLen int) *controlv1.ForwardResult {
	path := string(r.Forward.Rewrite.Apply(nil, x.path, prefixLen))
	if x.request.HasQuery {
		path += "?" + string(x.request.Query)
	}
	out := &controlv1.ForwardResult{
		Path:           path,
		Host:           orString(r.Forward.Rewrite.Host, string(x.request.Authority)),
		Headers:        x.headers(r),
		RemovedHeaders: x.removed(r),
	}
	for _, b := range r.Forward.Backends {
		out.Backends = append(out.Backends, &controlv1.BackendShare{
			Cluster: b.Cluster.Name,
			Weight:  uint32(b.Weight),
			Share:   float64(b.Weight) / float64(r.Forward.TotalWeight),
		})
	}
	return out
}

// headers are those that the proxy writes and those that the route sets and
// adds.
func (x *explainer) headers(r *Route) []*configv1.Header {
	forwarded := string(x.request.Fields.Get(message.XForwardedFor))
	if forwarded != "" {
		forwarded += ", "
	}
	out := []*configv1.Header{{Name: "X-Forwarded-For", Value: forwarded + x.source.String()}}
	out = x.told(out, "X-Forwarded-Proto", message.XForwardedProto, requestScheme(&x.request))
	out = x.told(out, "X-Forwarded-Host", message.XForwardedHost, string(x.request.Authority))
	for _, h := range r.RequestHeaders.Set {
		out = append(out, &configv1.Header{Name: h.Name, Value: h.Value})
	}
	for _, h := range r.RequestHeaders.Add {
		out = append(out, &configv1.Header{Name: h.Name, Value: h.Value})
	}
	return out
}

// told adds a field that the proxy writes, unless a trusted peer has sent it.
func (x *explainer) told(out []*configv1.Header, name string, id message.ID, value string) []*configv1.Header {
	if value == "" || x.request.Fields.Has(id) && x.trusted() {
		return out
	}
	return append(out, &configv1.Header{Name: name, Value: value})
}

func (x *explainer) trusted() bool {
	for _, p := range x.listener.Trusted {
		if p.Contains(x.source) {
			return true
		}
	}
	return false
}

// removed are the fields that the route takes away, and those of the request
// that are for one connection only.
func (x *explainer) removed(r *Route) []string {
	out := append([]string(nil), r.RequestHeaders.Remove...)
	for _, f := range x.request.Fields.All() {
		if f.ID.HopByHop() || x.request.Fields.ConnectionNames(f.ID, f.Name) {
			out = append(out, strings.ToLower(string(f.Name)))
		}
	}
	return out
}
