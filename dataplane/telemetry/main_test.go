package telemetry

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// newRecorder is a Recorder that ends with the test.
func newRecorder(t testing.TB, o Options) *Recorder {
	t.Helper()
	r, err := New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// testSnapshot has the given routes and clusters; every cluster has two
// endpoints, 10.0.0.1:80 and 10.0.0.2:80.
func testSnapshot(version string, routes, clusters []string) *snapshot.Snapshot {
	s := &snapshot.Snapshot{Version: version, Digest: "d-" + version}
	s.Telemetry.RecentRequests = 16
	for i, name := range routes {
		s.Routes = append(s.Routes, &snapshot.Route{Name: name, Index: i})
	}
	for i, name := range clusters {
		s.Clusters = append(s.Clusters, &snapshot.Cluster{Name: name, Index: i, Endpoints: []snapshot.Endpoint{
			{Address: "10.0.0.1:80"}, {Address: "10.0.0.2:80"},
		}})
	}
	return s
}

// goldenTime is when the exchanges of the tests begin.
var goldenTime = time.Date(2026, 11, 29, 22, 32, 50, 123456789, time.UTC)

// at is a time of socket.Now, some milliseconds after goldenTime.
func at(millis int64) int64 {
	return int64(goldenTime.Sub(socket.At(1))) + 1 + millis*int64(time.Millisecond)
}

// get fills in a GET that a snapshot's first route and cluster served in 12 ms.
func get(x *Exchange, s *snapshot.Snapshot) {
	x.Reset()
	x.Started, x.HeadAt, x.Ended = at(0), at(11), at(12)
	x.Listener, x.Route, x.Cluster = "web", s.Routes[0], s.Clusters[0]
	x.Method, x.MethodName = message.MethodGet, []byte("GET")
	x.Host, x.Path, x.Query = []byte("api.example.com:8080"), []byte("/v1/users"), []byte("page=2")
	x.Major, x.Minor = 1, 1
	x.UserAgent, x.Referer = []byte("curl/8.5.0"), []byte("https://example.com/")
	x.Client, x.Peer = netip.MustParseAddr("192.0.2.7"), netip.MustParseAddrPort("10.1.1.1:4242")
	x.Status, x.BytesIn, x.BytesOut = 200, 5, 1234
}

// try adds an attempt of 10 ms.
func try(v *View, x *Exchange, endpoint string, status int, reason string) {
	a := v.Attempt(x)
	a.Endpoint, a.Status, a.Reason = endpoint, status, reason
	a.Started, a.SentAt, a.FirstByteAt, a.Ended = at(1), at(2), at(10), at(11)
}

// serve is a whole exchange with one attempt.
func serve(v *View, x *Exchange, s *snapshot.Snapshot) {
	get(x, s)
	v.Begin(x, nil, nil)
	try(v, x, "10.0.0.1:80", 200, "")
	v.Finish(x)
}

// advance lets a bubble's time pass.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func newDiscard() *slog.Logger { return slog.New(slog.DiscardHandler) }
