package upstream

import (
	"testing"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// What a probe costs beside one another; each makes a connection of its own.
func BenchmarkProbe(b *testing.B) {
	l := listen(b, "tcp", "127.0.0.1:0")
	healthServer(b, l)
	addresses := map[snapshot.Probe]string{snapshot.ProbeHTTP: serve(b).address(), snapshot.ProbeGRPC: l.Addr().String(), snapshot.ProbeTCP: accepting(b)}
	for probe, name := range map[snapshot.Probe]string{snapshot.ProbeHTTP: "HTTP", snapshot.ProbeGRPC: "gRPC", snapshot.ProbeTCP: "TCP"} {
		config := checked(cluster("c", addresses[probe]))
		c := only(b, Options{}, config)
		check := *config.HealthCheck
		check.Probe = probe
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if ok, result := c.group.registry.ask(c.endpoints[0], &check); !ok {
					b.Fatal(result)
				}
			}
		})
	}
}
