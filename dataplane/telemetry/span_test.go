package telemetry

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headgate/headgate/dataplane/message"
	"github.com/headgate/headgate/dataplane/snapshot"
	"github.com/headgate/headgate/dataplane/socket"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// traced is a Recorder that keeps its spans, and the view of a snapshot that
// samples everything.
func traced(t *testing.T) (*View, *snapshot.Snapshot, *tracetest.InMemoryExporter) {
	t.Helper()
	r := newRecorder(t, Options{})
	exporter := tracetest.NewInMemoryExporter()
	r.traceTo(sdktrace.NewSimpleSpanProcessor(exporter), resource.Empty())
	s := testSnapshot("v1", []string{"users"}, []string{"users-backend"})
	s.Telemetry.TracingOn, s.Telemetry.TrustIncoming, s.Telemetry.SampleRatio = true, true, 1
	return r.View(s), s, exporter
}

func attributes(s tracetest.SpanStub) map[string]any {
	got := make(map[string]any)
	for _, a := range s.Attributes {
		got[string(a.Key)] = a.Value.AsInterface()
	}
	return got
}

func TestSpanTree(t *testing.T) {
	v, s, exporter := traced(t)
	var x Exchange
	get(&x, s)
	v.Begin(&x, []byte(testSampled), []byte("vendor=1"))
	try(v, &x, "10.0.0.1:80", 0, "connection_refused")
	first := string(x.AppendTraceparent(nil))
	try(v, &x, "10.0.0.2:80", 200, "")
	x.At(1).Reused, x.At(1).Target = true, []byte("/users?page=2")
	second := string(x.AppendTraceparent(nil))
	v.Finish(&x)

	spans := exporter.GetSpans()
	if len(spans) != 3 {
		t.Fatalf("%d spans, want 3", len(spans))
	}
	server, attempts := spans[2], spans[:2]
	checkServer(t, server)
	for i, sent := range []string{first, second} {
		a := attempts[i]
		if a.Parent.SpanID() != server.SpanContext.SpanID() || a.SpanKind != trace.SpanKindClient {
			t.Errorf("attempt %d is no client span below the server's", i+1)
		}
		if want := "00-" + testTrace + "-" + a.SpanContext.SpanID().String() + "-01"; sent != want {
			t.Errorf("attempt %d sent %s, but its span is %s", i+1, sent, want)
		}
		if !a.StartTime.Equal(socket.At(at(1))) || !a.EndTime.Equal(socket.At(at(11))) {
			t.Errorf("attempt %d lasted from %v to %v", i+1, a.StartTime, a.EndTime)
		}
	}
	checkAttempts(t, attempts)
}

func checkServer(t *testing.T, server tracetest.SpanStub) {
	t.Helper()
	if server.Name != "GET users" || server.SpanKind != trace.SpanKindServer {
		t.Errorf("server span: %s, %v", server.Name, server.SpanKind)
	}
	if p := server.Parent; p.TraceID().String() != testTrace || p.SpanID().String() != testParent || !p.IsRemote() {
		t.Errorf("the parent is %v", p)
	}
	if server.SpanContext.TraceState().String() != "vendor=1" {
		t.Errorf("tracestate is %q", server.SpanContext.TraceState())
	}
	if !server.StartTime.Equal(socket.At(at(0))) || !server.EndTime.Equal(socket.At(at(12))) {
		t.Errorf("it lasted from %v to %v", server.StartTime, server.EndTime)
	}
	want := map[string]any{
		"http.request.method": "GET", "url.scheme": "http", "url.path": "/v1/users", "url.query": "page=2",
		"server.address": "api.example.com", "server.port": int64(8080), "client.address": "192.0.2.7",
		"network.peer.address": "10.1.1.1", "network.peer.port": int64(4242), "network.protocol.version": "1.1",
		"user_agent.original": "curl/8.5.0", "http.response.status_code": int64(200), "http.route": "users",
		"headgate.route": "users", "headgate.cluster": "users-backend", "headgate.endpoint": "10.0.0.2:80",
		"headgate.listener": "web", "headgate.attempts": int64(2),
		"headgate.snapshot.version": "v1", "headgate.snapshot.digest": "d-v1",
	}
	if diff := cmp.Diff(want, attributes(server)); diff != "" {
		t.Errorf("server span (-want +got):\n%s", diff)
	}
}

func checkAttempts(t *testing.T, attempts tracetest.SpanStubs) {
	t.Helper()
	for i, want := range []map[string]any{{
		"http.request.method": "GET", "server.address": "10.0.0.1", "server.port": int64(80),
		"network.peer.address": "10.0.0.1", "network.peer.port": int64(80), "network.protocol.version": "1.1",
		"error.type": "connection_refused", "headgate.reason": "connection_refused",
		"headgate.cluster": "users-backend", "headgate.endpoint": "10.0.0.1:80", "headgate.connection.reused": false,
		"headgate.snapshot.version": "v1", "headgate.snapshot.digest": "d-v1",
	}, {
		"http.request.method": "GET", "server.address": "10.0.0.2", "server.port": int64(80),
		"network.peer.address": "10.0.0.2", "network.peer.port": int64(80), "network.protocol.version": "1.1",
		"http.response.status_code": int64(200), "http.request.resend_count": int64(1),
		"url.full":         "http://10.0.0.2:80/users?page=2",
		"headgate.cluster": "users-backend", "headgate.endpoint": "10.0.0.2:80", "headgate.connection.reused": true,
		"headgate.snapshot.version": "v1", "headgate.snapshot.digest": "d-v1",
	}} {
		if diff := cmp.Diff(want, attributes(attempts[i])); diff != "" {
			t.Errorf("attempt %d (-want +got):\n%s", i+1, diff)
		}
	}
	if attempts[0].Status.Code != codes.Error || attempts[1].Status.Code != codes.Unset {
		t.Errorf("statuses: %v, %v", attempts[0].Status, attempts[1].Status)
	}
}

// The span status rules of the HTTP conventions.
func TestServerSpanStatus(t *testing.T) {
	for _, c := range []struct {
		status int
		reason string
		want   codes.Code
		kind   any // error.type
	}{
		{200, "", codes.Unset, nil},
		{404, "destination_not_found", codes.Unset, nil},
		{429, "", codes.Unset, nil},
		{499, "client_gone", codes.Unset, nil},
		{500, "", codes.Error, "500"},
		{502, "connection_refused", codes.Error, "connection_refused"},
		{200, "http_response_incomplete", codes.Error, "http_response_incomplete"},
		{200, "client_gone", codes.Unset, nil},
	} {
		v, s, exporter := traced(t)
		var x Exchange
		get(&x, s)
		x.Status, x.Reason = c.status, c.reason
		v.Begin(&x, nil, nil)
		v.Finish(&x)
		span := exporter.GetSpans()[0]
		if span.Status.Code != c.want || attributes(span)["error.type"] != c.kind {
			t.Errorf("%d %s: %v, error.type %v", c.status, c.reason, span.Status.Code, attributes(span)["error.type"])
		}
	}
}

// A client can put nothing into a span that a collector would refuse.
func TestSpanOfHostileRequest(t *testing.T) {
	v, s, exporter := traced(t)
	var x Exchange
	get(&x, s)
	x.Route, x.Cluster = nil, nil
	x.Method, x.MethodName = message.MethodOther, []byte("BR\xffEW")
	x.Path, x.UserAgent, x.Host = []byte("/\xc3("), []byte("\xfe\xff"), []byte("[::1]:99999")
	v.Begin(&x, nil, []byte("not a state"))
	v.Finish(&x)
	span := exporter.GetSpans()[0]
	got := attributes(span)
	if span.Name != "HTTP" || got["http.request.method"] != "_OTHER" || got["http.request.method_original"] != "BR\uFFFDEW" {
		t.Errorf("name %q, method %v, original %v", span.Name, got["http.request.method"], got["http.request.method_original"])
	}
	if got["url.path"] != "/\uFFFD(" || got["user_agent.original"] != "\uFFFD" || got["server.address"] != "::1" {
		t.Errorf("path %q, agent %q, server %q", got["url.path"], got["user_agent.original"], got["server.address"])
	}
	if span.Parent.IsValid() {
		t.Error("a trace that begins here has a parent")
	}
}

// Of more attempts than are kept, the latest have spans and all are counted.
func TestManyAttempts(t *testing.T) {
	v, s, exporter := traced(t)
	var x Exchange
	get(&x, s)
	v.Begin(&x, nil, nil)
	for range MaxAttempts + 3 {
		try(v, &x, "10.0.0.1:80", 503, "")
	}
	v.Finish(&x)
	spans := exporter.GetSpans()
	if len(spans) != MaxAttempts+1 {
		t.Errorf("%d spans", len(spans))
	}
	if n := attributes(spans[0])["http.request.resend_count"]; n != int64(3) {
		t.Errorf("the oldest span kept is of retry %v", n)
	}
	if n := attributes(spans[MaxAttempts])["headgate.attempts"]; n != int64(MaxAttempts+3) {
		t.Errorf("headgate.attempts is %v", n)
	}
	page := scrape(t, v.rec)
	wantLines(t, page,
		`headgate_upstream_requests_total{headgate_cluster="users-backend",headgate_endpoint="10.0.0.1:80"} 11`,
		`headgate_retries_total{headgate_cluster="users-backend"} 10`)
}

// Spans of others go through the same provider and get random IDs.
func TestTracerOfOthers(t *testing.T) {
	v, _, exporter := traced(t)
	ctx, parent := v.rec.Tracer().Start(context.Background(), "apply")
	_, child := v.rec.Tracer().Start(ctx, "activate")
	child.End()
	parent.End()
	spans := exporter.GetSpans()
	if len(spans) != 2 || spans[0].Parent.SpanID() != spans[1].SpanContext.SpanID() || !spans[1].SpanContext.IsValid() {
		t.Errorf("spans: %v", spans)
	}
	if spans[0].SpanContext.SpanID() == spans[1].SpanContext.SpanID() {
		t.Error("both have the same ID")
	}
}

// What is secret by its name is told to nobody, in the query that came and in the
// one that went on.
func TestSpanScrubbed(t *testing.T) {
	v, s, exporter := traced(t)
	var x Exchange
	get(&x, s)
	x.Query = []byte("q=1&sig=secret&X-Amz-Signature=secret&signature=shown&sig=&Signature")
	v.Begin(&x, nil, nil)
	try(v, &x, "10.0.0.1:80", 200, "")
	x.At(0).Target, x.At(0).TLS, x.At(0).HTTP2 = []byte("/users?sig=secret?&q=1"), true, true
	try(v, &x, "unix:/run/users", 200, "")
	x.At(1).Target = []byte("/users?")
	v.Finish(&x)
	spans := exporter.GetSpans()
	if q := attributes(spans[2])["url.query"]; q != "q=1&sig=REDACTED&X-Amz-Signature=REDACTED&signature=shown&sig=&Signature" {
		t.Errorf("query %v", q)
	}
	if got := attributes(spans[0]); got["url.full"] != "https://10.0.0.1:80/users?sig=REDACTED&q=1" || got["network.protocol.version"] != "2" {
		t.Errorf("%v", got)
	}
	if full := attributes(spans[1])["url.full"]; full != "http://localhost/users?" {
		t.Errorf("full %v", full)
	}
}

// Calls of gRPC, by the code that they ended with; -1 is one that gave none.
func TestSpanOfCall(t *testing.T) {
	for code, want := range map[int]struct {
		status         any
		server, client codes.Code
		kind           any
	}{
		0: {"OK", codes.Unset, codes.Unset, nil}, 1: {"CANCELLED", codes.Unset, codes.Error, "CANCELLED"},
		5: {"NOT_FOUND", codes.Unset, codes.Error, "NOT_FOUND"}, 13: {"INTERNAL", codes.Error, codes.Error, "INTERNAL"},
		99: {"99", codes.Unset, codes.Error, "99"}, -1: {nil, codes.Unset, codes.Unset, nil},
	} {
		v, s, exporter := traced(t)
		var x Exchange
		get(&x, s)
		x.Path = []byte("/shop.Cart/Add")
		v.Begin(&x, nil, nil)
		try(v, &x, "10.0.0.1:80", 0, "connection_refused")
		try(v, &x, "10.0.0.2:80", 200, "")
		x.Call, x.CallCode = true, code
		v.Finish(&x)
		spans := exporter.GetSpans()
		for i, status := range map[int]codes.Code{1: want.client, 2: want.server} {
			got := attributes(spans[i])
			if got["rpc.system.name"] != "grpc" || got["rpc.method"] != "shop.Cart/Add" || got["rpc.response.status_code"] != want.status || spans[i].Status.Code != status {
				t.Errorf("code %d, span %d: %v, %v", code, i, got, spans[i].Status)
			}
			if kind := got["error.type"]; status == codes.Error && kind != want.kind || status != codes.Error && kind != nil {
				t.Errorf("code %d, span %d: error.type %v", code, i, kind)
			}
		}
		if got := attributes(spans[0]); got["rpc.system.name"] != nil || got["error.type"] != "connection_refused" {
			t.Errorf("code %d: the attempt that gave no answer: %v", code, got)
		}
	}
}
