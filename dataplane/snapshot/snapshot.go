// Package snapshot turns a configuration message into the immutable form that
// the data plane runs, and finds every fault on the way. It is pure: it opens
// no socket, and no goroutine of it outlives a call. Its result is shared by all
// requests that began under it and is never written again.
package snapshot

import (
	"net/netip"
	"regexp"
	"time"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

	"github.com/headgate/headgate/dataplane/certificate"
	"github.com/headgate/headgate/dataplane/route"
)

// Snapshot is one compiled configuration.
type Snapshot struct {
	Version string // the writer's label; the digest's first 12 hex digits if it gave none
	Digest  string // SHA-256 of the canonical content without the version, in hex
	Source  *configv1.Snapshot

	Listeners    []*Listener
	Certificates []*Certificate
	Bundles      []*Bundle
	Clusters     []*Cluster
	Routes       []*Route
	Telemetry    Telemetry

	made made // what the next compilation can use again
}

// Listener is a socket and what is allowed on it.
type Listener struct {
	Name    string
	Network string // "tcp" or "unix"
	Address string // host:port, [v6]:port, :port, or the path of a unix socket
	Trusted []netip.Prefix

	ProxyProtocol bool         // trusted peers say with a PROXY line whom they speak for
	TLS           *ListenerTLS // nil: clear text
	HTTP3         bool         // QUIC on the same port too; TLS is not nil

	MaxConnections int // 0: half of RLIMIT_NOFILE
	MaxHeaderBytes int
	MaxHeaders     int
	MaxTargetBytes int
	// MaxConcurrentStreams is how many streams a client of HTTP/2 may have open.
	MaxConcurrentStreams int

	HeaderTimeout   time.Duration
	BodyIdleTimeout time.Duration
	IdleTimeout     time.Duration
	DrainTimeout    time.Duration

	MergeSlashes bool
	Table        *route.Table // indices of its results are indices into Snapshot.Routes
}

// ListenerTLS is the server's side of TLS.
type ListenerTLS struct {
	Certificates   []string // names; picked from by SNI, the first is the fallback
	MinVersion     uint16   // of crypto/tls
	ClientBundle   string   // what certificates of clients must chain to; "": they are not asked for one
	ClientOptional bool     // clients without a certificate come in
}

// Certificate is a certificate with its key, in files or inline.
type Certificate struct {
	Source  certificate.Source
	Expires time.Time // zero: it is in a file
}

// Bundle is a set of certificate authorities, in a file or inline.
type Bundle struct {
	Source  certificate.BundleSource
	Expires time.Time // of the first that does; zero: it is in a file
}

// Route is what happens to the requests that a route wins. Exactly one of
// Forward, Redirect and Respond is set.
type Route struct {
	Name     string
	Index    int // in Snapshot.Routes and in the file
	Forward  *Forward
	Redirect *Redirect
	Respond  *Respond

	RequestHeaders  HeaderOps
	ResponseHeaders HeaderOps
	Fault           *Fault   // nil: none
	MaxRequestBytes int64    // 0: no limit
	Upgrades        []string // lower-case protocols that may be switched to; default websocket
}

// HeaderOps edits a head: first Remove, then Set, then Add.
type HeaderOps struct {
	Remove []string // lower-case names
	Set    []Header
	Add    []Header
}

// Header is one field line to write.
type Header struct{ Name, Value string }

// Empty reports whether there is nothing to edit.
func (o *HeaderOps) Empty() bool { return len(o.Remove)+len(o.Set)+len(o.Add) == 0 }

// Forward sends requests on.
type Forward struct {
	Backends    []Backend
	TotalWeight int // sum of the weights; > 0
	Rewrite     Rewrite
	Request     time.Duration // the whole exchange; 0: none
	PerTry      time.Duration // one attempt; 0: none
	FirstByte   time.Duration // request sent to response head
	Idle        time.Duration // silence on a response body or tunnel
	Retry       Retry
	Hedge       *Hedge  // nil: off
	Mirror      *Mirror // nil: off
}

// Hedge begins further attempts beside those that are slow.
type Hedge struct {
	After time.Duration // before each of them
	Max   int           // of them
}

// Mirror sends copies of requests to another cluster.
type Mirror struct {
	Cluster *Cluster
	Percent float64 // of the requests
}

// Fault puts faults in. A percentage is of the route's requests.
type Fault struct {
	DelayPercent float64
	Delay        time.Duration
	AbortPercent float64
	AbortStatus  int
}

// Backend is a cluster and its share.
type Backend struct {
	Cluster *Cluster
	Weight  int // 0: takes nothing
}

// Rewrite changes the path, and the host if Host is set. At most one of Prefix
// and Regex applies.
type Rewrite struct {
	HasPrefix   bool
	Prefix      string         // replaces the prefix that matched
	Regex       *regexp.Regexp // nil: none
	Replacement string         // with $1 to $9
	Host        string         // "": the host is kept
}

// RetryOn is a set of conditions.
type RetryOn uint16

// The conditions of forward.retry.on.
const (
	RetryConnectFailure RetryOn = 1 << iota
	RetryResetBeforeResponse
	RetryTimeout
	RetryInvalidResponse
	Retry5xx
	RetryGatewayError // 502, 503, 504
)

// Retry says when an attempt is made again.
type Retry struct {
	Attempts           int // retries beyond the first try
	On                 RetryOn
	Statuses           []int // single statuses, besides On
	Backoff            time.Duration
	BudgetPercent      int
	AllowNonIdempotent bool
}

// Redirect answers with a Location. What is left out is the request's.
type Redirect struct {
	Status int
	Scheme string // "": as the request
	Host   string // without port; "": as the request
	Port   int    // 0: as the request, or the scheme's own if Scheme is set
	Path   string // with its query, if any; "": path and query as the request
}

// Respond answers at once.
type Respond struct {
	Status      int
	Body        []byte
	ContentType string
}

// Cluster is a set of endpoints that serve the same thing.
type Cluster struct {
	Name      string
	Index     int    // in Snapshot.Clusters
	Identity  string // digest of what the endpoints' state depends on; equal means state carries over
	HTTP2     bool   // the endpoints speak HTTP/2, in clear text by prior knowledge
	ALPN      bool   // over TLS each endpoint says whether it speaks HTTP/2 or HTTP/1.1
	Endpoints []Endpoint
	DNS       *DNS         // its addresses are the endpoints; nil: they are listed
	TLS       *UpstreamTLS // nil: clear text

	Balancing Balancing
	Affinity  *Affinity     // nil: off
	SlowStart time.Duration // 0: at once

	HealthCheck    *HealthCheck    // nil: none
	Outlier        *Outlier        // nil: off
	CircuitBreaker *CircuitBreaker // nil: off

	MaxConnections            int // per cluster
	MaxConnectionsPerEndpoint int // 0: none
	MaxPendingRequests        int
	MaxRequests               int // 0: none
	MaxRetries                int // concurrent; 0: none
	AdaptiveMinimum           int // what a limit of requests that follows latency is never below; 0: there is none

	EarlyConnections int // idle ones to be kept open to each endpoint

	ConnectTimeout   time.Duration
	KeepAliveTimeout time.Duration
	PanicThreshold   int // percent healthy under which health is ignored; 0: never
}

// DNS is a name whose addresses are endpoints.
type DNS struct {
	Name    string
	Port    uint16
	Refresh time.Duration // between look-ups, if TTLs are not shorter
}

// UpstreamTLS is the client's side of TLS.
type UpstreamTLS struct {
	ServerName         string // "": the endpoint's host, an IP address, which is verified and not sent
	Bundle             string // name; "": the roots of the system
	Certificate        string // name of the one to show; "": none
	InsecureSkipVerify bool
}

// Endpoint is one server of a cluster.
type Endpoint struct {
	Address  string // host:port, [v6]:port or unix:/path
	Weight   int    // 0: drained
	Priority int    // 0 is used first
	Zone     string
}

// Policy is how an endpoint is picked.
type Policy uint8

// The policies of loadBalancing.
const (
	RoundRobin Policy = iota
	Random
	PeakEWMA
	LeastRequest
	ConsistentHash
)

// Balancing is a policy with its options.
type Balancing struct {
	Policy  Policy
	Choices int     // of LeastRequest; 0: all endpoints
	Key     HashKey // of ConsistentHash
}

// HashSource is the property of a request that is hashed.
type HashSource uint8

// The properties of loadBalancing.consistentHash.
const (
	HashNothing HashSource = iota
	HashHeader
	HashCookie
	HashQueryParam
	HashClientAddress
	HashPath
)

// HashKey is what to hash. Name is that of the header (in lower case), cookie
// or query parameter.
type HashKey struct {
	Source HashSource
	Name   string
}

// Affinity leads clients back by a cookie.
type Affinity struct {
	Cookie string        // its name
	TTL    time.Duration // 0: until the browser closes
}

// CircuitBreaker leaves an endpoint alone that fails, and then tries it.
type CircuitBreaker struct {
	ConsecutiveFailures int
	OpenFor             time.Duration
	HalfOpenRequests    int
}

// Probe is what an active check does.
type Probe uint8

// The probes of healthCheck.
const (
	ProbeHTTP Probe = iota
	ProbeGRPC
	ProbeTCP
)

// HealthCheck is an active check.
type HealthCheck struct {
	Probe              Probe
	Service            string // of ProbeGRPC; "": the server as a whole
	Path               string // of ProbeHTTP, as are Host and ExpectedStatuses
	Host               string // "": the endpoint's address
	HTTP2              bool   // ProbeHTTP speaks HTTP/2, as the cluster does
	ExpectedStatuses   []StatusRange
	Interval           time.Duration
	Timeout            time.Duration
	HealthyThreshold   int
	UnhealthyThreshold int
}

// StatusRange is a closed range of response statuses.
type StatusRange struct{ First, Last int }

// Outlier ejects an endpoint that fails the traffic itself.
type Outlier struct {
	ConsecutiveFailures int
	EjectionTime        time.Duration // times the number of ejections, at most 300 s
	MaxEjectionPercent  int
}

// Telemetry is what is recorded of the requests.
type Telemetry struct {
	SampleRatio    float64 // 0 to 1, for requests without a trusted parent
	TrustIncoming  bool    // honour the sampling decision of an incoming traceparent
	TracingOn      bool
	AccessLog      string // file, "-" for stdout, "" for off
	AccessLogJSON  bool   // else one text line in the combined format
	RecentRequests int    // size of the ring
}
