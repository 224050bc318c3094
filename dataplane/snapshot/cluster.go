package snapshot

import (
	"strconv"
	"strings"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// compileCluster makes the form of a cluster that the data plane runs, but for
// its index and identity.
func compileCluster(in *configv1.Cluster, f *faults) *Cluster {
	out := &Cluster{
		Name:             in.GetName(),
		HTTP2:            in.GetHttp2() != nil,
		ALPN:             in.GetTls() != nil && in.GetProtocol() == nil,
		Endpoints:        compileEndpoints(in.GetEndpoints(), f),
		DNS:              compileDNS(in.GetDns(), f),
		TLS:              compileUpstreamTLS(in, f),
		Balancing:        compileBalancing(in.GetLoadBalancing()),
		Affinity:         compileAffinity(in.GetSessionAffinity(), f),
		SlowStart:        duration(in.GetSlowStart(), 0, "slowStart", f),
		HealthCheck:      compileHealthCheck(in.GetHealthCheck(), f),
		Outlier:          compileOutlier(in.GetOutlierDetection(), f),
		CircuitBreaker:   compileCircuitBreaker(in.GetCircuitBreaker(), f),
		MaxConnections:   DefaultMaxConnections,
		ConnectTimeout:   duration(in.GetTimeouts().GetConnect(), DefaultConnectTimeout, "timeouts.connect", f),
		KeepAliveTimeout: duration(in.GetTimeouts().GetKeepAlive(), DefaultKeepAliveTimeout, "timeouts.keepAlive", f),
		PanicThreshold:   DefaultPanicThreshold,

		MaxConnectionsPerEndpoint: int(in.GetLimits().GetMaxConnectionsPerEndpoint()),
		MaxPendingRequests:        DefaultMaxPendingRequests,
		EarlyConnections:          int(in.GetEarlyConnections()),
		MaxRequests:               int(in.GetLimits().GetMaxRequests()),
		MaxRetries:                int(in.GetLimits().GetMaxRetries()),
	}
	if out.HealthCheck != nil {
		out.HealthCheck.HTTP2 = out.HTTP2
	}
	if limits := in.GetLimits(); limits != nil {
		if adaptive := limits.GetAdaptiveConcurrency(); adaptive != nil {
			out.AdaptiveMinimum = number(adaptive.MinRequests, DefaultMinRequests)
		}
		out.MaxConnections = number(limits.MaxConnections, DefaultMaxConnections)
		out.MaxPendingRequests = number(limits.MaxPendingRequests, DefaultMaxPendingRequests)
	}
	if in != nil {
		out.PanicThreshold = number(in.PanicThreshold, DefaultPanicThreshold)
	}
	return out
}

// compileDNS is nil for endpoints that are listed.
func compileDNS(in *configv1.Dns, f *faults) *DNS {
	if in == nil {
		return nil
	}
	return &DNS{
		Name: in.GetName(), Port: uint16(in.GetPort()),
		Refresh: duration(in.GetRefresh(), DefaultDNSRefresh, "dns.refresh", f),
	}
}

// compileEndpoints brings the addresses to one form and refuses doubles.
func compileEndpoints(in []*configv1.Endpoint, f *faults) []Endpoint {
	out := make([]Endpoint, 0, len(in))
	var seen map[string]int
	if len(in) > 1 {
		seen = make(map[string]int, len(in))
	}
	for i, e := range in {
		path := item("endpoints", i)
		address, err := endpointAddress(e.GetAddress())
		if err != nil {
			f.add(RuleAddress, path+".address", "%s %v", quote(e.GetAddress()), err)
			continue
		}
		if first, ok := seen[address]; ok {
			f.add(RuleTaken, path+".address", "%s is the address of endpoints[%d] too", quote(e.GetAddress()), first)
			continue
		}
		if seen != nil {
			seen[address] = i
		}
		out = append(out, Endpoint{Address: address, Weight: endpointWeight(e), Priority: int(e.GetPriority()), Zone: e.GetZone()})
	}
	return out
}

func endpointWeight(e *configv1.Endpoint) int {
	if e == nil {
		return 1
	}
	return number(e.Weight, 1)
}

// compileHealthCheck reads an active check, which is over HTTP if it does not
// say otherwise.
func compileHealthCheck(in *configv1.HealthCheck, f *faults) *HealthCheck {
	if in == nil {
		return nil
	}
	out := &HealthCheck{
		Interval:           duration(in.GetInterval(), DefaultProbeInterval, "healthCheck.interval", f),
		Timeout:            duration(in.GetTimeout(), DefaultProbeTimeout, "healthCheck.timeout", f),
		HealthyThreshold:   number(in.HealthyThreshold, DefaultHealthyThreshold),
		UnhealthyThreshold: number(in.UnhealthyThreshold, DefaultUnhealthyThreshold),
	}
	switch probe := in.GetProbe().(type) {
	case *configv1.HealthCheck_Grpc:
		out.Probe, out.Service = ProbeGRPC, probe.Grpc.GetService()
	case *configv1.HealthCheck_Tcp:
		out.Probe = ProbeTCP
	default:
		out.Path = orString(in.GetHttp().GetPath(), DefaultProbePath)
		out.ExpectedStatuses = compileStatuses(in.GetHttp().GetExpectedStatuses(), "healthCheck.http.expectedStatuses", f)
	}
	return out
}

// compileStatuses reads statuses such as "204" and ranges such as "200-299".
func compileStatuses(in []string, path string, f *faults) []StatusRange {
	if len(in) == 0 {
		return []StatusRange{{First: 200, Last: 299}}
	}
	out := make([]StatusRange, 0, len(in))
	for i, s := range in {
		r, ok := parseStatuses(s)
		switch {
		case !ok:
			f.add(RuleStatus, item(path, i), "%s is neither a status such as 204 nor a range such as 200-299", quote(s))
		case r.First > r.Last:
			f.add(RuleStatus, item(path, i), "%s is a range that ends before it begins", quote(s))
		default:
			out = append(out, r)
		}
	}
	return out
}

// parseStatuses reads one of them, from 100 to 599.
func parseStatuses(s string) (StatusRange, bool) {
	first, last, ranged := strings.Cut(s, "-")
	if !ranged {
		last = first
	}
	a, errA := strconv.Atoi(first)
	b, errB := strconv.Atoi(last)
	ok := errA == nil && errB == nil && len(first) == 3 && len(last) == 3
	return StatusRange{First: a, Last: b}, ok && min(a, b) >= 100 && max(a, b) <= 599
}

// compileOutlier is on by default.
func compileOutlier(in *configv1.OutlierDetection, f *faults) *Outlier {
	if in.GetDisabled() {
		return nil
	}
	out := &Outlier{
		ConsecutiveFailures: DefaultOutlierFailures,
		EjectionTime:        duration(in.GetEjectionTime(), DefaultEjectionTime, "outlierDetection.ejectionTime", f),
		MaxEjectionPercent:  DefaultMaxEjectionPercent,
	}
	if in != nil {
		out.ConsecutiveFailures = number(in.ConsecutiveFailures, DefaultOutlierFailures)
		out.MaxEjectionPercent = number(in.MaxEjectionPercent, DefaultMaxEjectionPercent)
	}
	return out
}
