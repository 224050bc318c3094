package snapshot

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// compileRoute makes the form of a route that the data plane runs, but for its
// index and the clusters of its backends, which are nil until it is linked.
func compileRoute(in *configv1.Route, f *faults) *Route {
	out := &Route{
		Name:            in.GetName(),
		RequestHeaders:  compileHeaders(in.GetRequestHeaders(), "requestHeaders", f),
		ResponseHeaders: compileHeaders(in.GetResponseHeaders(), "responseHeaders", f),
		Fault:           compileFault(in.GetFault(), f),
		MaxRequestBytes: compileMaxRequest(in.GetLimits().GetMaxRequestBytes(), f),
		Upgrades:        compileUpgrades(in.GetUpgrades(), f),
	}
	switch action := in.GetAction().(type) {
	case *configv1.Route_Forward:
		out.Forward = compileForward(action.Forward, in.GetMatches(), f)
	case *configv1.Route_Redirect:
		out.Redirect = compileRedirect(action.Redirect)
	case *configv1.Route_Respond:
		out.Respond = compileRespond(action.Respond, &out.ResponseHeaders, f)
	}
	return out
}

// compileMaxRequest keeps the limit within an int64.
func compileMaxRequest(n uint64, f *faults) int64 {
	const most = 1<<63 - 1
	if n > most {
		f.add("limits", "limits.maxRequestBytes", "must be at most %d", uint64(most))
		return most
	}
	return int64(n)
}

// defaultUpgrades is shared by all routes that say nothing of upgrades.
var defaultUpgrades = []string{DefaultUpgrade}

func compileUpgrades(in *structpb.ListValue, f *faults) []string {
	if in == nil {
		return defaultUpgrades
	}
	out := make([]string, 0, len(in.GetValues()))
	for i, v := range in.GetValues() {
		name, ok := v.GetKind().(*structpb.Value_StringValue)
		if !ok || name.StringValue == "" {
			f.add("route.upgrades", item("upgrades", i), "must be the name of a protocol, such as websocket")
			continue
		}
		out = append(out, strings.ToLower(name.StringValue))
	}
	return out
}

func compileForward(in *configv1.Forward, matches []*configv1.Match, f *faults) *Forward {
	out := &Forward{
		Rewrite:   compileRewrite(in.GetRewrite(), matches, f),
		Request:   duration(in.GetTimeouts().GetRequest(), 0, "forward.timeouts.request", f),
		PerTry:    duration(in.GetTimeouts().GetPerTry(), 0, "forward.timeouts.perTry", f),
		FirstByte: duration(in.GetTimeouts().GetFirstByte(), DefaultFirstByteTimeout, "forward.timeouts.firstByte", f),
		Idle:      duration(in.GetTimeouts().GetIdle(), DefaultForwardIdleTimeout, "forward.timeouts.idle", f),
		Retry:     compileRetry(in.GetRetry(), f),
		Hedge:     compileHedge(in.GetHedge(), f),
		Mirror:    compileMirror(in.GetMirror()),
	}
	for _, b := range in.GetBackends() {
		weight := 1
		if b != nil {
			weight = number(b.Weight, 1)
		}
		out.Backends = append(out.Backends, Backend{Weight: weight})
		out.TotalWeight += weight
	}
	if len(out.Backends) > 0 && out.TotalWeight == 0 {
		f.add(RuleWeights, "forward.backends", "all weights are 0: no request would have anywhere to go")
	}
	return out
}

// retryConditions are the names of forward.retry.on.
var retryConditions = map[string]RetryOn{
	"connect-failure":       RetryConnectFailure,
	"reset-before-response": RetryResetBeforeResponse,
	"timeout":               RetryTimeout,
	"invalid-response":      RetryInvalidResponse,
	"5xx":                   Retry5xx,
	"gateway-error":         RetryGatewayError,
}

func compileRetry(in *configv1.Retry, f *faults) Retry {
	out := Retry{
		Attempts:           DefaultRetryAttempts,
		On:                 DefaultRetryOn,
		Backoff:            duration(in.GetBackoff(), DefaultRetryBackoff, "forward.retry.backoff", f),
		BudgetPercent:      DefaultRetryBudgetPercent,
		AllowNonIdempotent: in.GetAllowNonIdempotent(),
	}
	if in == nil {
		return out
	}
	out.Attempts = number(in.Attempts, DefaultRetryAttempts)
	out.BudgetPercent = number(in.BudgetPercent, DefaultRetryBudgetPercent)
	if len(in.GetOn()) > 0 {
		out.On = 0
	}
	for i, s := range in.GetOn() {
		condition, known := retryConditions[s]
		status, err := strconv.Atoi(s)
		switch {
		case known:
			out.On |= condition
		case err == nil && status >= 300 && status <= 599 && len(s) == 3:
			out.Statuses = append(out.Statuses, status)
		default:
			f.add("retry.on", item("forward.retry.on", i), "%s is no condition: %s", quote(s), suggest(s, "conditions", retryConditions))
		}
	}
	return out
}

func compileRedirect(in *configv1.Redirect) *Redirect {
	return &Redirect{
		Status: orNumber(in.GetStatus(), DefaultRedirectStatus),
		Scheme: in.GetScheme(),
		Host:   in.GetHost(),
		Port:   int(in.GetPort()),
		Path:   in.GetPath(),
	}
}

// compileRespond gives a direct answer its media type: the one that the route
// sets, or else plain text.
func compileRespond(in *configv1.Respond, headers *HeaderOps, f *faults) *Respond {
	out := &Respond{
		Status: orNumber(in.GetStatus(), DefaultRespondStatus),
		Body:   []byte(in.GetBody()),
	}
	if len(out.Body) > 0 {
		out.ContentType = DefaultContentType
	}
	if len(out.Body) > 0 && (out.Status == 204 || out.Status == 205 || out.Status == 304) {
		f.add(RuleStatus, "respond.body", "status %d has no body", out.Status)
	}
	for _, h := range headers.Set {
		if strings.EqualFold(h.Name, "content-type") {
			out.ContentType = h.Value
		}
	}
	return out
}
