package snapshot

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// The language is larger than what is built. Each field of it is in one of the
// two lists below, by its path without indices; "path.*" stands for every field
// of a message, and of the messages in it. A field that is set and not in
// supported is refused, so that nothing a user writes is ever ignored. To
// build a field's behaviour is to move its line.

// supported are the fields whose behaviour is built.
var supported = []string{
	"version",

	"listeners.name",
	"listeners.address",
	"listeners.trustedProxies",
	"listeners.limits.maxConnections",
	"listeners.limits.maxHeaderBytes",
	"listeners.limits.maxHeaders",
	"listeners.limits.maxTargetBytes",
	"listeners.limits.maxConcurrentStreams",
	"listeners.timeouts.header",
	"listeners.timeouts.bodyIdle",
	"listeners.timeouts.idle",
	"listeners.timeouts.drain",
	"listeners.path.mergeSlashes",
	"listeners.proxyProtocol",
	"listeners.tls.certificates",
	"listeners.tls.minVersion",
	"listeners.tls.clientAuth.caBundle",
	"listeners.tls.clientAuth.optional",
	"listeners.http3",

	"certificates.name",
	"certificates.certificateFile",
	"certificates.certificatePem",
	"certificates.privateKeyFile",
	"certificates.privateKeyPem",
	"certificates.acme.domains",
	"certificates.acme.email",
	"certificates.acme.directory",
	"certificates.acme.caBundle",
	"caBundles.name",
	"caBundles.file",
	"caBundles.pem",

	"clusters.name",
	"clusters.endpoints.address",
	"clusters.endpoints.weight",
	"clusters.endpoints.zone",
	"clusters.endpoints.priority",
	"clusters.dns.name",
	"clusters.dns.port",
	"clusters.dns.refresh",
	"clusters.tls.serverName",
	"clusters.tls.caBundle",
	"clusters.tls.clientCertificate",
	"clusters.tls.insecureSkipVerify",
	"clusters.http1",
	"clusters.http2",
	"clusters.loadBalancing.roundRobin",
	"clusters.loadBalancing.random",
	"clusters.loadBalancing.peakEwma",
	"clusters.loadBalancing.leastRequest.choices",
	"clusters.loadBalancing.consistentHash.header",
	"clusters.loadBalancing.consistentHash.cookie",
	"clusters.loadBalancing.consistentHash.queryParam",
	"clusters.loadBalancing.consistentHash.clientAddress",
	"clusters.loadBalancing.consistentHash.path",
	"clusters.sessionAffinity.cookie.name",
	"clusters.sessionAffinity.cookie.ttl",
	"clusters.slowStart",
	"clusters.panicThreshold",
	"clusters.healthCheck.http.path",
	"clusters.healthCheck.http.expectedStatuses",
	"clusters.healthCheck.grpc.service",
	"clusters.healthCheck.tcp",
	"clusters.healthCheck.interval",
	"clusters.healthCheck.timeout",
	"clusters.healthCheck.healthyThreshold",
	"clusters.healthCheck.unhealthyThreshold",
	"clusters.outlierDetection.disabled",
	"clusters.outlierDetection.consecutiveFailures",
	"clusters.outlierDetection.ejectionTime",
	"clusters.outlierDetection.maxEjectionPercent",
	"clusters.circuitBreaker.consecutiveFailures",
	"clusters.circuitBreaker.openFor",
	"clusters.circuitBreaker.halfOpenRequests",
	"clusters.limits.maxConnections",
	"clusters.limits.maxConnectionsPerEndpoint",
	"clusters.limits.maxPendingRequests",
	"clusters.limits.maxRequests",
	"clusters.limits.adaptiveConcurrency.minRequests",
	"clusters.limits.maxRetries",
	"clusters.earlyConnections",
	"clusters.timeouts.connect",
	"clusters.timeouts.keepAlive",

	"routes.name",
	"routes.listeners",
	"routes.hosts",
	"routes.priority",
	"routes.matches.path.exact",
	"routes.matches.path.prefix",
	"routes.matches.path.regex",
	"routes.matches.methods",
	"routes.matches.headers.name",
	"routes.matches.headers.exact",
	"routes.matches.headers.regex",
	"routes.matches.headers.present",
	"routes.matches.queryParams.name",
	"routes.matches.queryParams.exact",
	"routes.matches.queryParams.regex",
	"routes.matches.queryParams.present",
	"routes.matches.sources",
	"routes.forward.backends.cluster",
	"routes.forward.backends.weight",
	"routes.forward.rewrite.prefix",
	"routes.forward.rewrite.regex.pattern",
	"routes.forward.rewrite.regex.replacement",
	"routes.forward.rewrite.host",
	"routes.forward.timeouts.request",
	"routes.forward.timeouts.perTry",
	"routes.forward.timeouts.firstByte",
	"routes.forward.timeouts.idle",
	"routes.forward.retry.attempts",
	"routes.forward.retry.on",
	"routes.forward.retry.backoff",
	"routes.forward.retry.budgetPercent",
	"routes.forward.retry.allowNonIdempotent",
	"routes.forward.hedge.after",
	"routes.forward.hedge.max",
	"routes.forward.mirror.cluster",
	"routes.forward.mirror.percent",
	"routes.redirect.status",
	"routes.redirect.path",
	"routes.redirect.scheme",
	"routes.redirect.host",
	"routes.redirect.port",
	"routes.respond.status",
	"routes.respond.body",
	"routes.requestHeaders.set.name",
	"routes.requestHeaders.set.value",
	"routes.requestHeaders.add.name",
	"routes.requestHeaders.add.value",
	"routes.requestHeaders.remove",
	"routes.responseHeaders.set.name",
	"routes.responseHeaders.set.value",
	"routes.responseHeaders.add.name",
	"routes.responseHeaders.add.value",
	"routes.responseHeaders.remove",
	"routes.limits.maxRequestBytes",
	"routes.fault.delay.percent",
	"routes.fault.delay.duration",
	"routes.fault.abort.percent",
	"routes.fault.abort.status",
	"routes.upgrades",

	"telemetry.tracing.sampleRatio",
	"telemetry.tracing.trustIncoming",
	"telemetry.accessLog.file",
	"telemetry.accessLog.format",
	"telemetry.recentRequests",
}

// unsupported are the fields that are refused. Code does not read it: it
// is what tells a field that waits from one that was forgotten.
var unsupported = []string{
	"listeners.ipFilter.*",
	"rateLimits.*",
	"tiers.*",
	"apiKeys.*",
	"routes.registerDevice.*",
	"routes.auth.*",
	"routes.ipFilter.*",
	"routes.rateLimits",
	"routes.cache.*",
	"routes.compression.*",
	"routes.cors.*",
}

// field is a field of the language as the walk sees it.
type field struct {
	name     string // in JSON
	leaf     bool   // its value is supported whole
	secret   bool   // it may hold what Redact put there
	children map[protoreflect.FieldNumber]*field
}

// language is the tree of the supported fields.
var language = growLanguage((*configv1.Snapshot)(nil).ProtoReflect().Descriptor(), supported)

// growLanguage makes the tree. A path that names no field is a mistake in the
// list above, and stops the program before it can accept anything.
func growLanguage(root protoreflect.MessageDescriptor, paths []string) *field {
	tree := &field{}
	for _, path := range paths {
		at, message := tree, root
		for name := range strings.SplitSeq(path, ".") {
			fd := message.Fields().ByJSONName(name)
			if fd == nil {
				panic("snapshot: no such field: " + path)
			}
			at, message = at.child(fd), fd.Message()
		}
		at.leaf = true
	}
	return tree
}

// child is the node below, made if there is none.
func (n *field) child(fd protoreflect.FieldDescriptor) *field {
	if n.children == nil {
		n.children = map[protoreflect.FieldNumber]*field{}
	}
	c := n.children[fd.Number()]
	if c == nil {
		c = &field{name: fd.JSONName(), secret: isSecret(fd)}
		n.children[fd.Number()] = c
	}
	return c
}

// languageWalk refuses what is set in a message and not supported.
type languageWalk struct {
	faults *faults
	path   []step
}

// step is one step of a path; index is -1 for a field that is no list.
type step struct {
	name  string
	index int
}

// message walks over the fields that are set.
func (w *languageWalk) message(m protoreflect.Message, at *field) {
	if len(m.GetUnknown()) > 0 {
		w.faults.add(RuleUnknown, w.at(), "holds a field that this version does not know: it was written by a newer one")
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		w.field(fd, v, at.children[fd.Number()])
		return true
	})
}

func (w *languageWalk) field(fd protoreflect.FieldDescriptor, v protoreflect.Value, at *field) {
	w.path = append(w.path, step{name: fd.JSONName(), index: -1})
	defer func() { w.path = w.path[:len(w.path)-1] }()
	switch {
	case at == nil || fd.IsMap() && !at.leaf:
		path := w.at()
		w.faults.add(RuleUnsupported, path, "not supported yet: %s", w.faults.path(path))
	case at.secret && v.String() == Redacted:
		w.faults.add(RuleRedacted, w.at(), "was taken out when this was read back: put the secret in again")
	case at.leaf && (fd.Message() == nil || fd.IsMap() || wellKnown(fd.Message())):
		// Read whole. A message without fields is looked into all the same,
		// for fields that only a newer version knows.
	case fd.IsList():
		list := v.List()
		for i := range list.Len() {
			w.path[len(w.path)-1].index = i
			w.message(list.Get(i).Message(), at)
		}
	case fd.Message() != nil:
		w.message(v.Message(), at)
	}
}

// wellKnown reports whether a message is one of protobuf's own, a duration say.
func wellKnown(m protoreflect.MessageDescriptor) bool {
	return m.ParentFile().Package() == "google.protobuf"
}

// at writes out the path to where the walk is.
func (w *languageWalk) at() string {
	var b strings.Builder
	for i, s := range w.path {
		if i > 0 {
			b.WriteByte('.')
		}
		if s.index < 0 {
			b.WriteString(s.name)
		} else {
			b.WriteString(item(s.name, s.index))
		}
	}
	return b.String()
}
