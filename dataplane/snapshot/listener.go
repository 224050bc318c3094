package snapshot

import (
	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// compileListener makes the form of a listener that the data plane runs, but
// for its table.
func compileListener(in *configv1.Listener, f *faults) *Listener {
	limits, timeouts := in.GetLimits(), in.GetTimeouts()
	out := &Listener{
		Name:                 in.GetName(),
		Trusted:              prefixes(in.GetTrustedProxies(), "trustedProxies", f),
		MaxConnections:       int(limits.GetMaxConnections()),
		MaxHeaderBytes:       DefaultMaxHeaderBytes,
		MaxHeaders:           DefaultMaxHeaders,
		MaxTargetBytes:       DefaultMaxTargetBytes,
		MaxConcurrentStreams: DefaultMaxConcurrentStreams,
		HeaderTimeout:        duration(timeouts.GetHeader(), DefaultHeaderTimeout, "timeouts.header", f),
		BodyIdleTimeout:      duration(timeouts.GetBodyIdle(), DefaultBodyIdleTimeout, "timeouts.bodyIdle", f),
		IdleTimeout:          duration(timeouts.GetIdle(), DefaultIdleTimeout, "timeouts.idle", f),
		DrainTimeout:         duration(timeouts.GetDrain(), DefaultDrainTimeout, "timeouts.drain", f),
		MergeSlashes:         true,
		ProxyProtocol:        in.GetProxyProtocol() != nil,
		TLS:                  compileListenerTLS(in.GetTls()),
		HTTP3:                in.GetHttp3() != nil,
	}
	if limits != nil {
		out.MaxHeaderBytes = number(limits.MaxHeaderBytes, DefaultMaxHeaderBytes)
		out.MaxHeaders = number(limits.MaxHeaders, DefaultMaxHeaders)
		out.MaxTargetBytes = number(limits.MaxTargetBytes, DefaultMaxTargetBytes)
		out.MaxConcurrentStreams = number(limits.MaxConcurrentStreams, DefaultMaxConcurrentStreams)
	}
	if path := in.GetPath(); path != nil && path.MergeSlashes != nil {
		out.MergeSlashes = *path.MergeSlashes
	}
	var err error
	if out.Network, out.Address, err = listenAddress(in.GetAddress()); err != nil {
		f.add(RuleAddress, "address", "%s %v", quote(in.GetAddress()), err)
	}
	switch {
	case out.HTTP3 && out.TLS == nil:
		f.add(RuleHTTP3, "http3", "needs tls: HTTP/3 has no clear text")
	case out.HTTP3 && out.Network != networkTCP:
		f.add(RuleHTTP3, "http3", "needs a port: HTTP/3 is not spoken on a unix socket")
	}
	if out.ProxyProtocol && out.Network == networkTCP && len(out.Trusted) == 0 {
		f.warn(RuleUnused, "proxyProtocol", "no PROXY line is believed: the listener has no trustedProxies")
	}
	return out
}

// compileTelemetry says what is recorded.
func compileTelemetry(in *configv1.Telemetry) Telemetry {
	out := Telemetry{RecentRequests: DefaultRecentRequests}
	if in == nil {
		return out
	}
	out.RecentRequests = number(in.RecentRequests, DefaultRecentRequests)
	if tracing := in.GetTracing(); tracing != nil {
		out.TracingOn, out.TrustIncoming, out.SampleRatio = true, true, DefaultSampleRatio
		if tracing.SampleRatio != nil {
			out.SampleRatio = *tracing.SampleRatio
		}
		if tracing.TrustIncoming != nil {
			out.TrustIncoming = *tracing.TrustIncoming
		}
	}
	if log := in.GetAccessLog(); log != nil {
		out.AccessLog = orString(log.GetFile(), DefaultAccessLog)
		out.AccessLogJSON = log.GetFormat() != "text"
	}
	return out
}
