package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"github.com/headgate/headgate/dataplane/telemetry"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRecorder(t *testing.T) *telemetry.Recorder {
	t.Helper()
	t.Setenv("OTEL_SDK_DISABLED", "true")
	r, err := telemetry.New(context.Background(), telemetry.Options{})
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

// ask is the answer to a request.
func ask(t *testing.T, h http.Handler, method, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, nil))
	return w
}

func TestPages(t *testing.T) {
	h := Handler(Options{
		Recorder: newRecorder(t),
		Status:   func() any { return map[string]int{"generation": 3} },
		Config:   func() []byte { return []byte("version: v1\n") },
	})
	for _, c := range []struct {
		method, target string
		status         int
		kind, body     string // body: a part of it
	}{
		{"GET", "/", 200, plain, "/debug/requests"},
		{"GET", "/healthz", 200, plain, "ok\n"},
		{"HEAD", "/healthz", 200, plain, ""},
		{"GET", "/readyz", 200, plain, "ready\n"},
		{"GET", "/metrics", 200, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", "http_server_active_requests"},
		{"GET", "/debug/requests", 200, "application/json", "[]"},
		{"GET", "/debug/status", 200, "application/json", `"generation": 3`},
		{"GET", "/debug/config", 200, "application/yaml", "version: v1"},
		{"GET", "/debug/pprof/", 200, "text/html; charset=utf-8", "goroutine"},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, plain, "goroutine profile"},
		{"GET", "/debug/pprof/cmdline", 200, plain, "test"},
		{"GET", "/nothing", 404, plain, "not found"},
		{"POST", "/healthz", 405, plain, "GET and HEAD"},
		{"PUT", "/debug/config", 405, plain, "GET and HEAD"},
		{"POST", "/debug/pprof/symbol", 405, plain, "GET and HEAD"},
		{"GET", "/debug/requests?limit=0", 400, plain, "limit: want a number from 1 to 10000"},
		{"GET", "/debug/requests?color=red", 400, plain, "color: no such filter"},
		{"GET", "/debug/requests?status=5yy", 400, plain, "status: want"},
		{"GET", "/debug/requests?slower=quick", 400, plain, "slower: want"},
		{"GET", "/debug/requests?route=a&route=b", 400, plain, "route: given 2 times"},
		{"GET", "/debug/requests?route=%zz", 400, plain, "invalid URL escape"},
	} {
		w := ask(t, h, c.method, c.target)
		if w.Code != c.status || w.Header().Get("Content-Type") != c.kind || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s %s: %d, %s, %.200s", c.method, c.target, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		if c.status == 405 && w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: Allow is %q", c.method, c.target, w.Header().Get("Allow"))
		}
	}
}

// What there is nothing to show for has no page, and is not listed.
func TestPagesLeftOut(t *testing.T) {
	h := Handler(Options{})
	for _, target := range []string{"/metrics", "/debug/requests", "/debug/status", "/debug/config"} {
		if w := ask(t, h, "GET", target); w.Code != 404 {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	if w := ask(t, h, "GET", "/"); strings.Contains(w.Body.String(), "/metrics") {
		t.Error("a page that is not there is listed")
	}
}

func TestNotReady(t *testing.T) {
	reason := "no snapshot is active"
	h := Handler(Options{Ready: func() (bool, string) { return reason == "", reason }})
	if w := ask(t, h, "GET", "/readyz"); w.Code != 503 || w.Body.String() != reason+"\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(t, h, "GET", "/healthz"); w.Code != 200 {
		t.Errorf("healthz: %d", w.Code)
	}
	reason = ""
	if w := ask(t, h, "GET", "/readyz"); w.Code != 200 {
		t.Errorf("ready at last: %d", w.Code)
	}
}

func TestJSONConfig(t *testing.T) {
	h := Handler(Options{Config: func() []byte { return []byte(`{"version":"v1"}`) }, Status: func() any { return make(chan int) }})
	if w := ask(t, h, "GET", "/debug/config"); w.Header().Get("Content-Type") != "application/json" {
		t.Error(w.Header())
	}
	if w := ask(t, h, "GET", "/debug/status"); w.Code != 500 {
		t.Errorf("a status that is no JSON: %d", w.Code)
	}
}

// served has three requests in its ring: /a 200 in 1 ms, /b 404 in 2 ms, /a/c 502 in 3 ms.
func served(t *testing.T) http.Handler {
	t.Helper()
	r := newRecorder(t)
	s := &snapshot.Snapshot{Version: "v1", Routes: []*snapshot.Route{{Name: "first"}, {Name: "second", Index: 1}}}
	s.Telemetry.RecentRequests = 10
	v := r.View(s)
	for i, one := range []struct {
		path   string
		status int
		reason string
		route  int
	}{{"/a", 200, "", 0}, {"/b", 404, "", 1}, {"/a/c", 502, "connection_refused", 1}} {
		now := socket.Now()
		x := telemetry.Exchange{
			Started: now, Ended: now + int64(i+1)*int64(time.Millisecond), Route: s.Routes[one.route], Path: []byte(one.path),
			Method: message.MethodGet, MethodName: []byte("GET"), Status: one.status, Reason: one.reason,
			Client: netip.MustParseAddr("192.0.2.1"),
		}
		v.Begin(&x, nil, nil)
		v.Finish(&x)
	}
	return Handler(Options{Recorder: r})
}

func TestRequests(t *testing.T) {
	h := served(t)
	for query, want := range map[string]string{
		"":                            "/a/c /b /a",
		"limit=1":                     "/a/c",
		"path=/a":                     "/a/c /a",
		"path=/a&status=502":          "/a/c",
		"status=4xx":                  "/b",
		"status=5xx&path=/b":          "",
		"route=second":                "/a/c /b",
		"slower=2ms":                  "/a/c /b",
		"reason=connection_refused":   "/a/c",
		"client=192.0.2.1&method=GET": "/a/c /b /a",
		"client=192.0.2.2":            "",
	} {
		w := ask(t, h, "GET", "/debug/requests?"+query)
		var list []telemetry.Recent
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatalf("%s: %v: %s", query, err, w.Body)
		}
		var got []string
		for _, one := range list {
			got = append(got, one.Path)
		}
		if fmt.Sprint(got) != fmt.Sprint(strings.Fields(want)) {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
}
