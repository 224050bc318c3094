package telemetry

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/socket"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// ids are the IDs that a span was given before it was made.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

type idsKey struct{}

// chosenIDs makes spans with the IDs in their context, and random ones for spans
// that have none.
type chosenIDs struct{}

// NewIDs implements sdktrace.IDGenerator.
func (chosenIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if chosen, ok := ctx.Value(idsKey{}).(ids); ok {
		return chosen.trace, chosen.span
	}
	var t Trace
	t.begin(0)
	return t.ID, newSpanID()
}

// NewSpanID implements sdktrace.IDGenerator.
func (chosenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if chosen, ok := ctx.Value(idsKey{}).(ids); ok {
		return chosen.span
	}
	return newSpanID()
}

// record makes the spans of an exchange that is over: one of kind SERVER, and
// below it one of kind CLIENT for each attempt that is known.
func (v *View) record(x *Exchange) {
	t := &x.Trace
	ctx := context.WithValue(context.Background(), idsKey{}, ids{t.ID, t.SpanID})
	if t.kept {
		ctx = trace.ContextWithRemoteSpanContext(ctx, t.remote())
	}
	ctx, span := v.rec.spans.Start(ctx, serverName(x), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(socket.At(x.Started)), trace.WithAttributes(v.serverAttributes(x)...))
	if x.HeadAt != 0 {
		span.AddEvent("response head sent", trace.WithTimestamp(socket.At(x.HeadAt)))
	}
	for n, a := range x.Each {
		v.recordAttempt(ctx, x, a, n)
	}
	if serverFailed(x) {
		span.SetStatus(codes.Error, x.Detail)
	}
	span.End(trace.WithTimestamp(socket.At(x.Ended)))
}

// remote is the client's span.
func (t *Trace) remote() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: t.ID, SpanID: t.Parent, TraceFlags: trace.TraceFlags(t.flags), TraceState: spanState(string(t.state)), Remote: true,
	})
}

func (v *View) recordAttempt(ctx context.Context, x *Exchange, a *Attempt, n int) {
	ctx = context.WithValue(ctx, idsKey{}, ids{x.Trace.ID, a.SpanID})
	_, span := v.rec.spans.Start(ctx, methodName(x.sentMethod(a)), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(socket.At(a.Started)), trace.WithAttributes(v.clientAttributes(x, a, n)...))
	if a.SentAt != 0 {
		span.AddEvent("request head sent", trace.WithTimestamp(socket.At(a.SentAt)))
	}
	if a.FirstByteAt != 0 {
		span.AddEvent("first response byte", trace.WithTimestamp(socket.At(a.FirstByteAt)))
	}
	if a.Reason != "" || a.Status >= 400 || x.callOf(a) && x.CallCode > 0 {
		span.SetStatus(codes.Error, a.Reason)
	}
	span.End(trace.WithTimestamp(socket.At(a.Ended)))
}

// serverFailed follows the HTTP conventions: an answer of 4xx is no error of the
// server; one of 5xx is, and so is a good answer that an upstream cut short, or a
// call that ended by a fault of its server.
func serverFailed(x *Exchange) bool {
	if x.Status >= 400 {
		return x.Status >= 500
	}
	return x.Reason != "" && reasons[reasonOf(x.Reason)].blame == blameUpstream || x.Call && callFault(x.CallCode)
}

// sentMethod is the method of an attempt: a websocket is asked for by GET on
// HTTP/1, and by CONNECT on streams.
func (x *Exchange) sentMethod(a *Attempt) message.Method { return cmp.Or(a.Method, x.Method) }

// methodName is the span name of a method: HTTP if it is not a known one.
func methodName(m message.Method) string {
	if name := methodNames[countedMethod(m)]; name != otherMethod {
		return name
	}
	return "HTTP"
}

func serverName(x *Exchange) string {
	if x.Route == nil {
		return methodName(x.Method)
	}
	return methodName(x.Method) + " " + x.Route.Name
}

// serverAttributes describes the request and what became of it. The query is
// told as it came, as the conventions have it.
func (v *View) serverAttributes(x *Exchange) []attribute.KeyValue {
	list := make([]attribute.KeyValue, 0, 32)
	list = appendMethod(list, x, x.Method)
	list = append(list, semconv.URLScheme(scheme(x)), semconv.URLPath(text(x.Path)))
	if len(x.Query) > 0 {
		list = append(list, semconv.URLQuery(scrub(text(x.Query))))
	}
	list = appendServer(list, text(x.Host))
	list = appendPeers(list, x)
	if len(x.UserAgent) > 0 {
		list = append(list, semconv.UserAgentOriginal(text(x.UserAgent)))
	}
	if x.Status != 0 {
		list = append(list, semconv.HTTPResponseStatusCode(x.Status))
	}
	if serverFailed(x) {
		list = append(list, semconv.ErrorTypeKey.String(cmp.Or(errorType(x.Reason, x.Status, 500), callStatus(x.CallCode))))
	}
	return v.appendOwn(appendCall(list, x), x)
}

// appendMethod tells a method that is not known apart from its name.
func appendMethod(list []attribute.KeyValue, x *Exchange, m message.Method) []attribute.KeyValue {
	name := methodNames[countedMethod(m)]
	list = append(list, semconv.HTTPRequestMethodKey.String(name))
	if name == otherMethod && len(x.MethodName) > 0 {
		list = append(list, semconv.HTTPRequestMethodOriginal(text(x.MethodName)))
	}
	return list
}

func appendPeers(list []attribute.KeyValue, x *Exchange) []attribute.KeyValue {
	if x.Client.IsValid() {
		list = append(list, semconv.ClientAddress(x.Client.String()))
	}
	if x.Peer.IsValid() {
		list = append(list, semconv.NetworkPeerAddress(x.Peer.Addr().String()), semconv.NetworkPeerPort(int(x.Peer.Port())))
	}
	if x.Major != 0 {
		list = append(list, semconv.NetworkProtocolVersion(string(appendVersion(nil, x))))
	}
	return list
}

// appendServer adds server.address, and server.port if the authority has one.
func appendServer(list []attribute.KeyValue, authority string) []attribute.KeyValue {
	host, port := splitAuthority(authority)
	if host != "" {
		list = append(list, semconv.ServerAddress(host))
	}
	if port > 0 {
		list = append(list, semconv.ServerPort(port))
	}
	return list
}

// splitAuthority parts host and port; the port is 0 if there is none.
func splitAuthority(authority string) (string, int) {
	host, text, err := net.SplitHostPort(authority)
	if err != nil {
		return strings.Trim(authority, "[]"), 0
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return host, 0
	}
	return host, int(port)
}

// appendOwn adds what only Headgate knows.
func (v *View) appendOwn(list []attribute.KeyValue, x *Exchange) []attribute.KeyValue {
	list = append(list, keySnapshotVersion.String(v.version), keySnapshotDigest.String(v.digest), keyAttempts.Int(x.Tries))
	if x.Listener != "" {
		list = append(list, keyListener.String(x.Listener))
	}
	if x.Route != nil {
		list = append(list, semconv.HTTPRoute(x.Route.Name), keyRoute.String(x.Route.Name))
	}
	if x.Cluster != nil {
		list = append(list, keyCluster.String(x.Cluster.Name))
	}
	if a := x.decisive(); a != nil {
		list = append(list, keyEndpoint.String(a.Endpoint))
	}
	if x.Reason != "" {
		list = append(list, keyReason.String(x.Reason))
	}
	if x.NotRetried != "" {
		list = append(list, keyNotRetried.String(x.NotRetried))
	}
	if x.Injected != "" {
		list = append(list, keyInjected.String(x.Injected))
	}
	return list
}

func (v *View) clientAttributes(x *Exchange, a *Attempt, n int) []attribute.KeyValue {
	list := make([]attribute.KeyValue, 0, 20)
	list = appendMethod(list, x, x.sentMethod(a))
	list = append(list, keyEndpoint.String(a.Endpoint), keyReused.Bool(a.Reused),
		keySnapshotVersion.String(v.version), keySnapshotDigest.String(v.digest))
	list = appendUpstream(list, a)
	if x.Cluster != nil {
		list = append(list, keyCluster.String(x.Cluster.Name))
	}
	if n > 1 {
		list = append(list, semconv.HTTPRequestResendCount(n-1))
	}
	if a.Hedge {
		list = append(list, keyHedge.Bool(true))
	}
	if a.Mirror {
		list = append(list, keyMirror.Bool(true))
	}
	if a.Lost {
		list = append(list, keyLost.Bool(true))
	}
	if a.Status != 0 {
		list = append(list, semconv.HTTPResponseStatusCode(a.Status))
	}
	if a.Reason != "" {
		list = append(list, keyReason.String(a.Reason))
	}
	kind := errorType(a.Reason, a.Status, 400)
	if x.callOf(a) {
		list = appendCall(list, x)
		if x.CallCode > 0 {
			kind = cmp.Or(kind, callStatus(x.CallCode))
		}
	}
	if kind != "" {
		list = append(list, semconv.ErrorTypeKey.String(kind))
	}
	return list
}

// appendUpstream describes the endpoint of an attempt.
func appendUpstream(list []attribute.KeyValue, a *Attempt) []attribute.KeyValue {
	list = appendServer(list, a.Endpoint)
	if addr, err := netip.ParseAddrPort(a.Endpoint); err == nil {
		list = append(list, semconv.NetworkPeerAddress(addr.Addr().String()), semconv.NetworkPeerPort(int(addr.Port())))
	}
	if len(a.Target) > 0 {
		list = append(list, semconv.URLFull(fullURL(a)))
	}
	switch {
	case a.SentAt == 0: // nothing was spoken
	case a.HTTP2:
		list = append(list, semconv.NetworkProtocolVersion("2"))
	default:
		list = append(list, semconv.NetworkProtocolVersion("1.1"))
	}
	return list
}

// fullURL is where an attempt was sent. A unix socket has no name in a URL.
func fullURL(a *Attempt) string {
	scheme, host := "http://", a.Endpoint
	if a.TLS {
		scheme = "https://"
	}
	if strings.HasPrefix(host, "unix:") {
		host = "localhost"
	}
	target, query, has := strings.Cut(text(a.Target), "?")
	if has {
		target += "?" + scrub(query)
	}
	return scheme + host + target
}

// sensitive are the keys of a query whose values are told to nobody: the default
// of OpenTelemetry (registry of attributes, url.query).
var sensitive = []string{"X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token", "AWSAccessKeyId", "Signature", "sig", "X-Goog-Signature"}

// scrub replaces the values of sensitive keys.
func scrub(query string) string {
	params := strings.Split(query, "&")
	for i, param := range params {
		if key, value, _ := strings.Cut(param, "="); value != "" && slices.Contains(sensitive, key) {
			params[i] = key + "=REDACTED"
		}
	}
	return strings.Join(params, "&")
}

// errorType is the value of error.type: the reason, or else the status from the
// first that counts as an error.
func errorType(reason string, status, first int) string {
	if reason != "" {
		return reason
	}
	if status >= first {
		return strconv.Itoa(status)
	}
	return ""
}

// text is bytes as an attribute's value, which must be UTF-8: one bad string
// would make a collector refuse its whole batch.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
