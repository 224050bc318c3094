package upstream

import (
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// What a probe costs beside one another, its server's side included. Those over
// gRPC keep their connection.
func BenchmarkProbe(b *testing.B) {
	l := listen(b, "tcp", "127.0.0.1:0")
	healthServer(b, l)
	addresses := map[snapshot.Probe]string{snapshot.ProbeHTTP: serve(b).address(), snapshot.ProbeGRPC: l.Addr().String(), snapshot.ProbeTCP: accepting(b)}
	for probe, name := range map[snapshot.Probe]string{snapshot.ProbeHTTP: "HTTP", snapshot.ProbeGRPC: "gRPC", snapshot.ProbeTCP: "TCP"} {
		config := probedBy(cluster("c", addresses[probe]), probe, "")
		config.HealthCheck.Interval = time.Hour
		c := only(b, Options{}, config)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if ok, result := c.group.registry.ask(c.endpoints[0], config.HealthCheck); !ok {
					b.Fatal(result)
				}
			}
		})
	}
}
