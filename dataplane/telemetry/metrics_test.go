package telemetry

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/snapshot"
)

// scrape is what /metrics says.
func scrape(t testing.TB, r *Recorder) string {
	t.Helper()
	families, err := r.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			t.Fatal(err)
		}
	}
	return page.String()
}

func wantLines(t testing.TB, page string, want ...string) {
	t.Helper()
	lines := strings.Split(page, "\n")
	for _, line := range want {
		if !slices.Contains(lines, line) {
			t.Errorf("no line %s in\n%s", line, ours(lines))
		}
	}
}

// ours is the lines that are not of the Go runtime, the process or a bucket.
func ours(lines []string) string {
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, "#") || strings.HasPrefix(l, "go_") || strings.HasPrefix(l, "process_") || strings.Contains(l, "_bucket{")
	}), "\n")
}

func TestMetrics(t *testing.T) {
	r := newRecorder(t, Options{Shards: 4})
	s := testSnapshot("v1", []string{"users"}, []string{"backend"})
	v := r.View(s)
	for shard := range 4 {
		x := Exchange{Shard: shard}
		serve(v, &x, s)
	}
	var x Exchange
	get(&x, s)
	x.Status, x.Reason = 502, "connection_refused"
	v.Begin(&x, nil, nil)
	try(v, &x, "10.0.0.1:80", 0, "connection_refused")
	try(v, &x, "10.9.9.9:80", 0, "never heard of")
	v.Finish(&x)
	get(&x, s)
	x.Route, x.Cluster, x.Status, x.Method = nil, nil, 404, message.MethodOther
	v.Begin(&x, nil, nil)
	wantLines(t, scrape(t, r),
		`http_server_active_requests{http_request_method="_OTHER",url_scheme="http"} 1`,
		`http_server_active_requests{http_request_method="GET",url_scheme="http"} 0`)
	v.Finish(&x)

	wantLines(t, scrape(t, r),
		`http_server_active_requests{http_request_method="_OTHER",url_scheme="http"} 0`,
		`http_server_request_duration_seconds_bucket{http_request_method="GET",http_response_status_code="200",http_route="users",le="0.01"} 0`,
		`http_server_request_duration_seconds_bucket{http_request_method="GET",http_response_status_code="200",http_route="users",le="0.025"} 4`,
		`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="200",http_route="users"} 4`,
		`http_server_request_duration_seconds_sum{http_request_method="GET",http_response_status_code="200",http_route="users"} 0.048`,
		`http_server_request_duration_seconds_count{error_type="connection_refused",http_request_method="GET",http_response_status_code="502",http_route="users"} 1`,
		`http_server_request_duration_seconds_count{http_request_method="_OTHER",http_response_status_code="404"} 1`,
		`http_client_request_duration_seconds_count{headgate_cluster="backend",http_request_method="GET",http_response_status_code="200"} 4`,
		`http_client_request_duration_seconds_count{error_type="_OTHER",headgate_cluster="backend",http_request_method="GET"} 1`,
		`headgate_upstream_requests_total{headgate_cluster="backend",headgate_endpoint="10.0.0.1:80"} 5`,
		`headgate_upstream_requests_total{headgate_cluster="backend",headgate_endpoint="_OTHER"} 1`,
		`headgate_upstream_failures_total{error_type="connection_refused",headgate_cluster="backend",headgate_endpoint="10.0.0.1:80"} 1`,
		`headgate_upstream_failures_total{error_type="_OTHER",headgate_cluster="backend",headgate_endpoint="_OTHER"} 1`,
		`headgate_retries_total{headgate_cluster="backend"} 1`,
		`headgate_request_bytes_total{http_route="users"} 25`,
		`headgate_response_bytes_total{http_route="users"} 6170`)
	if page := scrape(t, r); !strings.Contains(page, "\ngo_goroutines ") || !strings.Contains(page, "\nprocess_cpu_seconds_total ") {
		t.Error("the runtime or the process is missing")
	}
}

// A peer that answers with everything there is makes no more than maxOutcomes
// series, and nothing is lost.
func TestOutcomesAreBounded(t *testing.T) {
	r := newRecorder(t, Options{Shards: 2})
	s := testSnapshot("v1", []string{"users"}, []string{"backend"})
	v := r.View(s)
	total := 0
	for status := 90; status < 1000; status++ {
		x := Exchange{Shard: status % 2}
		get(&x, s)
		x.Status = status
		v.Begin(&x, nil, nil)
		v.Finish(&x)
		total++
	}
	count, overflow := 0, uint64(0)
	sum := uint64(0)
	for o, d := range v.routes[0].requests.total() {
		count++
		sum += d.count
		if o == outcomeOverflow {
			overflow = d.count
		}
	}
	if count != maxOutcomes+1 || sum != uint64(total) || overflow == 0 {
		t.Errorf("%d outcomes, %d of %d requests, %d of them beyond the bound", count, sum, total, overflow)
	}
	wantLines(t, scrape(t, r),
		fmt.Sprintf(`http_server_request_duration_seconds_count{http_route="users",otel_metric_overflow="true"} %d`, overflow),
		`http_server_request_duration_seconds_count{error_type="_OTHER",http_request_method="GET",http_response_status_code="_OTHER",http_route="users"} 410`)
}

// Counters belong to names: they go on in the next snapshot, whatever its order.
func TestCountersOutliveSnapshots(t *testing.T) {
	r := newRecorder(t, Options{})
	old := testSnapshot("v1", []string{"a", "b"}, []string{"c", "d"})
	young := testSnapshot("v2", []string{"new", "b", "a"}, []string{"d", "c"})
	before := r.View(old)
	var x Exchange
	serve(before, &x, old)
	after := r.View(young)
	get(&x, young)
	x.Route, x.Cluster = young.Routes[2], young.Clusters[1]
	after.Begin(&x, nil, nil)
	try(after, &x, "10.0.0.1:80", 200, "")
	after.Finish(&x)
	serve(before, &x, old) // late
	wantLines(t, scrape(t, r),
		`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="200",http_route="a"} 3`,
		`headgate_upstream_requests_total{headgate_cluster="c",headgate_endpoint="10.0.0.1:80"} 3`)
}

// A cluster that did not change may be handed over as an older snapshot has it,
// where its index is another.
func TestClusterOfOlderSnapshot(t *testing.T) {
	r := newRecorder(t, Options{})
	old := testSnapshot("v1", []string{"a"}, []string{"c", "d"})
	young := testSnapshot("v2", []string{"a"}, []string{"d", "c"})
	v := r.View(young)
	var x Exchange
	get(&x, young)
	x.Cluster = old.Clusters[0]
	v.Begin(&x, nil, nil)
	try(v, &x, "10.0.0.2:80", 200, "")
	v.Finish(&x)
	wantLines(t, scrape(t, r), `headgate_upstream_requests_total{headgate_cluster="c",headgate_endpoint="10.0.0.2:80"} 1`)
}

// A name that is gone is exported once more; what ends later is still counted.
func TestGoneNames(t *testing.T) {
	r := newRecorder(t, Options{})
	old := testSnapshot("v1", []string{"old"}, []string{"old"})
	before := r.View(old)
	var x Exchange
	serve(before, &x, old)
	scrape(t, r)
	after := r.View(testSnapshot("v2", []string{"new"}, []string{"new"}))
	serve(before, &x, old) // v2 is not in use yet
	r.Use(after)
	serve(before, &x, old)
	wantLines(t, scrape(t, r),
		`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="200",http_route="old"} 3`,
		`headgate_upstream_requests_total{headgate_cluster="old",headgate_endpoint="10.0.0.1:80"} 3`)
	serve(before, &x, old)
	page := scrape(t, r)
	if strings.Contains(page, `"old"`) {
		t.Error("a name that is gone is still exported")
	}
	wantLines(t, page,
		`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="200",http_route="_OTHER"} 1`,
		`headgate_upstream_requests_total{headgate_cluster="_OTHER",headgate_endpoint="_OTHER"} 1`)
	serve(r.View(testSnapshot("v3", []string{"old"}, []string{"old"})), &x, old)
	wantLines(t, scrape(t, r),
		`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="200",http_route="old"} 1`)
}

// An endpoint that leaves its cluster goes as well.
func TestGoneEndpoint(t *testing.T) {
	r := newRecorder(t, Options{})
	s := testSnapshot("v1", []string{"a"}, []string{"c"})
	v := r.View(s)
	var x Exchange
	serve(v, &x, s)
	scrape(t, r)
	less := testSnapshot("v2", []string{"a"}, []string{"c"})
	less.Clusters[0].Endpoints = less.Clusters[0].Endpoints[1:]
	r.Use(r.View(less))
	line := `headgate_upstream_requests_total{headgate_cluster="c",headgate_endpoint="10.0.0.1:80"} 1`
	wantLines(t, scrape(t, r), line)
	serve(v, &x, s)
	page := scrape(t, r)
	if strings.Contains(page, line) {
		t.Error("an endpoint that is gone is still exported")
	}
	wantLines(t, page, `headgate_upstream_requests_total{headgate_cluster="c",headgate_endpoint="_OTHER"} 1`)
}

// With nobody reading the metrics, retired names do not pile up.
// What DNS finds has series of its own, for as long as it finds it, whichever
// snapshot is in use meanwhile.
func TestFoundEndpoints(t *testing.T) {
	r := newRecorder(t, Options{})
	s := testSnapshot("1", []string{"r"}, []string{"c"})
	s.Clusters[0].DNS, s.Clusters[0].Endpoints = &snapshot.DNS{Name: "c.test"}, nil
	v := r.View(s)
	r.Use(v)
	x := &Exchange{}
	series := func(address string) string { return v.clusters[0].endpoint(address).address }
	r.Resolved("c", []string{"10.0.0.1:80"})
	serve(v, x, s)
	if got := series("10.0.0.1:80"); got != "10.0.0.1:80" {
		t.Errorf("counted under %s", got)
	}
	r.Resolved("nobody", []string{"10.0.0.1:80"})
	// Another snapshot with the same name, and one that was never used.
	next := testSnapshot("2", []string{"r"}, []string{"c"})
	next.Clusters[0].DNS, next.Clusters[0].Endpoints = s.Clusters[0].DNS, nil
	r.View(next)
	v = r.View(next)
	r.Use(v)
	if got := series("10.0.0.1:80"); got != "10.0.0.1:80" {
		t.Errorf("after an apply, counted under %s", got)
	}
	r.Resolved("c", []string{"10.0.0.2:80"})
	r.mu.Lock()
	if old := r.clusters["c"].endpoints["10.0.0.1:80"]; !r.retired(&old.life) {
		t.Error("what is gone is not retired")
	}
	r.mu.Unlock()
	if got := series("10.0.0.2:80"); got != "10.0.0.2:80" {
		t.Errorf("the new one is counted under %s", got)
	}
	// Very many, one after the other, are no more than may be.
	for i := range 3 * maxRetired {
		r.Resolved("c", []string{fmt.Sprintf("10.1.%d.%d:80", i>>8, i&255)})
	}
	if n := len(r.clusters["c"].endpoints); n > maxRetired+10 {
		t.Errorf("%d series", n)
	}
}

func TestRetiredNamesAreBounded(t *testing.T) {
	r := newRecorder(t, Options{})
	for i := range 60 {
		var names []string
		for n := range 100 {
			names = append(names, fmt.Sprintf("%d-%d", i, n))
		}
		s := testSnapshot(fmt.Sprint(i), names, names)
		r.Use(r.View(s))
	}
	count := len(r.routes) + len(r.clusters)
	for _, c := range r.clusters {
		count += len(c.endpoints)
	}
	if live := 100 + 100 + 300; count > maxRetired+live {
		t.Errorf("%d series for %d live ones", count, live)
	}
}

// Views know how many series they have, so that nothing is searched for retired
// ones when there can be few.
func TestSizeOfView(t *testing.T) {
	r := newRecorder(t, Options{})
	for _, names := range [][]string{{"a", "b"}, {"b", "a"}, {"a", "b", "c"}} {
		s := testSnapshot("v", names, names)
		s.Clusters[0].Endpoints = append(s.Clusters[0].Endpoints, s.Clusters[0].Endpoints[0])
		v := r.View(s)
		r.Use(v)
		if all := len(r.routes) + len(r.clusters) + r.endpoints; v.size != all {
			t.Errorf("%v: the size is %d, and there are %d series", names, v.size, all)
		}
	}
}

// Names are known wherever they stand, and the clusters of an older snapshot,
// which had other places, by their names.
func TestViewOfOtherOrder(t *testing.T) {
	r := newRecorder(t, Options{})
	old := testSnapshot("v1", []string{"a", "b", "c"}, []string{"d", "e", "f"})
	r.Use(r.View(old))
	young := testSnapshot("v2", []string{"c", "x", "a"}, []string{"f", "y", "d"})
	v := r.View(young)
	for i, route := range young.Routes {
		if got := v.routeOf(route); got.name != route.Name || got != r.routes[route.Name] || got != v.routes[i] {
			t.Errorf("route %s is counted as %q", route.Name, got.name)
		}
	}
	for _, s := range []*snapshot.Snapshot{old, young} {
		for _, c := range s.Clusters {
			want := r.clusters[c.Name]
			if c.Name == "e" {
				want = r.goneCluster.series
			}
			if got := v.clusterOf(c).series; got != want {
				t.Errorf("%s: cluster %s is counted as %q", s.Version, c.Name, got.name)
			}
		}
	}
}

// A view that never came into use leaves nothing behind.
func TestAbandonedView(t *testing.T) {
	r := newRecorder(t, Options{})
	s := testSnapshot("v1", []string{"a"}, []string{"c"})
	r.Use(r.View(s))
	r.View(testSnapshot("v2", []string{"b"}, []string{"d"}))
	r.Use(r.View(s))
	scrape(t, r)
	scrape(t, r)
	if len(r.routes) != 1 || len(r.clusters) != 1 {
		t.Errorf("%d routes, %d clusters", len(r.routes), len(r.clusters))
	}
}

func TestObserve(t *testing.T) {
	r := newRecorder(t, Options{})
	r.Observe([]Instrument{
		{Name: "headgate.upstream.connections", Unit: "{connection}", Description: "Connections open."},
		{Name: "headgate.listener.refused", Description: "Connections refused.", Counter: true},
		{Name: "headgate.nothing", Description: "Of which there is none."},
	}, func(emit func(string, float64, ...Label)) {
		emit("headgate.listener.refused", 5)
		emit("headgate.upstream.connections", 3, Label{"headgate.cluster", "a"}, Label{"headgate.endpoint", "\xff"})
		emit("headgate.upstream.connections", 4, Label{"headgate.cluster", "b"})
	})
	wantLines(t, scrape(t, r),
		`headgate_upstream_connections{headgate_cluster="a",headgate_endpoint="`+"\uFFFD"+`"} 3`,
		`headgate_upstream_connections{headgate_cluster="b"} 4`,
		`# HELP headgate_upstream_connections Connections open.`,
		`# TYPE headgate_upstream_connections gauge`,
		`# HELP headgate_listener_refused_total Connections refused.`,
		`# TYPE headgate_listener_refused_total counter`,
		`headgate_listener_refused_total 5`)
}

// Everything at once, for the race detector; nothing may be lost.
func TestConcurrentExchanges(t *testing.T) {
	r := newRecorder(t, Options{Shards: 2, Stdout: new(bytes.Buffer)})
	s := testSnapshot("v1", []string{"a"}, []string{"c"})
	s.Telemetry.AccessLog = "-"
	r.Use(r.View(s))
	var group sync.WaitGroup
	const workers, each = 4, 200
	for w := range workers {
		group.Go(func() {
			x := Exchange{Shard: w % 2}
			for range each {
				serve(r.current.Load(), &x, s)
			}
		})
	}
	group.Go(func() {
		for range 20 {
			r.Use(r.View(s))
			scrape(t, r)
			r.Recent(nil, 10)
		}
	})
	group.Wait()
	wantLines(t, scrape(t, r), fmt.Sprintf(
		`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="200",http_route="a"} %d`, workers*each))
}
