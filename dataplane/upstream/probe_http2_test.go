package upstream

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// An endpoint that speaks nothing but HTTP/2 is found healthy, and by its status
// unhealthy.
func TestProbeOverHTTP2(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("probed over %s", r.Proto)
		}
		if asked.Add(1) > 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()

	heard := make(events, 8)
	config := checked(cluster("app", server.Listener.Addr().String()))
	config.HTTP2, config.HealthCheck.HTTP2 = true, true
	config.HealthCheck.Interval, config.HealthCheck.Timeout = 10*time.Millisecond, time.Minute
	only(t, Options{Events: heard.add}, config)
	for _, want := range []State{StateHealthy, StateUnhealthy} {
		if e := heard.next(t, HealthChanged); e.To != want {
			t.Errorf("became %v, not %v: %s", e.To, want, e.Evidence)
		}
	}
}
