package upstream

import (
	"strings"
	"testing"
)

func TestFirstProbeDecides(t *testing.T) {
	live, dead := serve(t), refusing(t)
	seen := make(events, 10)
	c := only(t, Options{Events: seen.add}, checked(cluster("c", live.address(), dead)))

	// Warm has waited for both probes, so nobody is ever sent to the dead one.
	if n := picks(t, c, 10); n[live.address()] != 10 {
		t.Fatalf("picks: %v", n)
	}
	for range 2 {
		e := seen.next(t, HealthChanged)
		want, evidence := "1 active probe passed: status 200", "GET /healthz: status 200 in "
		if e.Endpoint == dead {
			want, evidence = "1 active probe failed: connection refused", "GET /healthz: connection refused in "
		}
		if e.Cluster != "c" || e.From != StateUnknown || e.Cause != want || !strings.HasPrefix(e.Evidence, evidence) {
			t.Errorf("event %+v", e)
		}
		if !e.NextProbe.After(e.At) {
			t.Errorf("next probe at %v, event at %v", e.NextProbe, e.At)
		}
	}
}
