package snapshot

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What is written of a cluster, and what it is compiled to: the parts that say
// how its endpoints are picked, tried and left alone.
func TestCompileTraffic(t *testing.T) {
	breaker := &CircuitBreaker{ConsecutiveFailures: 5, OpenFor: 30 * time.Second, HalfOpenRequests: 1}
	for _, test := range []struct {
		yaml string
		want Cluster
	}{
		{`{}`, Cluster{}},
		{`{loadBalancing: {roundRobin: {}}}`, Cluster{}},
		{`{loadBalancing: {random: {}}}`, Cluster{Balancing: Balancing{Policy: Random}}},
		{`{loadBalancing: {peakEwma: {}}}`, Cluster{Balancing: Balancing{Policy: PeakEWMA}}},
		{`{loadBalancing: {leastRequest: {}}}`, Cluster{Balancing: Balancing{Policy: LeastRequest}}},
		{`{loadBalancing: {leastRequest: {choices: 3}}}`, Cluster{Balancing: Balancing{Policy: LeastRequest, Choices: 3}}},
		{`{loadBalancing: {consistentHash: {header: X-User}}}`, hashed(HashHeader, "x-user")},
		{`{loadBalancing: {consistentHash: {cookie: User}}}`, hashed(HashCookie, "User")},
		{`{loadBalancing: {consistentHash: {queryParam: u}}}`, hashed(HashQueryParam, "u")},
		{`{loadBalancing: {consistentHash: {clientAddress: {}}}}`, hashed(HashClientAddress, "")},
		{`{loadBalancing: {consistentHash: {path: {}}}}`, hashed(HashPath, "")},
		{`{sessionAffinity: {cookie: {}}}`, Cluster{Affinity: &Affinity{Cookie: "hg"}}},
		{`{sessionAffinity: {cookie: {name: c, ttl: 1h}}}`, Cluster{Affinity: &Affinity{Cookie: "c", TTL: time.Hour}}},
		{`{slowStart: 30s}`, Cluster{SlowStart: 30 * time.Second}},
		{`{circuitBreaker: {}}`, Cluster{CircuitBreaker: breaker}},
		{`{circuitBreaker: {consecutiveFailures: 1, openFor: 2s, halfOpenRequests: 3}}`, Cluster{CircuitBreaker: &CircuitBreaker{1, 2 * time.Second, 3}}},
	} {
		in := read(t, "clusters: ["+test.yaml+"]")
		f := &faults{}
		c := compileCluster(in.Clusters[0], f)
		got := Cluster{Balancing: c.Balancing, Affinity: c.Affinity, SlowStart: c.SlowStart, CircuitBreaker: c.CircuitBreaker}
		if diff := cmp.Diff(test.want, got); diff != "" || len(f.list) > 0 {
			t.Errorf("%s: %v\n%s", test.yaml, f.list, diff)
		}
	}
}

func hashed(source HashSource, name string) Cluster {
	return Cluster{Balancing: Balancing{Policy: ConsistentHash, Key: HashKey{Source: source, Name: name}}}
}

func TestCompileProbes(t *testing.T) {
	for yaml, want := range map[string]HealthCheck{
		`http: {path: /up}`:      {Path: "/up", ExpectedStatuses: []StatusRange{{200, 299}}},
		`http: {}`:               {Path: "/", ExpectedStatuses: []StatusRange{{200, 299}}},
		`grpc: {}`:               {Probe: ProbeGRPC},
		`grpc: {service: users}`: {Probe: ProbeGRPC, Service: "users"},
		`tcp: {}`:                {Probe: ProbeTCP},
	} {
		in := read(t, "clusters: [{endpoints: [{address: \"127.0.0.1:1\", priority: 3}], healthCheck: {"+yaml+"}}]")
		f := &faults{}
		c := compileCluster(in.Clusters[0], f)
		want.Interval, want.Timeout, want.HealthyThreshold, want.UnhealthyThreshold = 5*time.Second, 2*time.Second, 1, 2
		if diff := cmp.Diff(want, *c.HealthCheck); diff != "" || len(f.list) > 0 {
			t.Errorf("%s: %v\n%s", yaml, f.list, diff)
		}
		if p := c.Endpoints[0].Priority; p != 3 {
			t.Errorf("priority %d", p)
		}
	}
}
