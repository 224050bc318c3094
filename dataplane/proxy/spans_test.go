package proxy_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spanSink is an OTLP collector that keeps spans.
type spanSink struct {
	mu    sync.Mutex
	spans []*tracev1.Span
}

// collects has the data planes of a test export their spans.
func collects(t *testing.T) *spanSink {
	sink := new(spanSink)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var export collectortrace.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err != nil || proto.Unmarshal(body, &export) != nil {
			t.Error("not an export of spans")
		}
		sink.mu.Lock()
		defer sink.mu.Unlock()
		for _, of := range export.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				sink.spans = append(sink.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(s.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", s.URL+"/v1/traces")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
	return sink
}

// tree waits for the spans of one exchange with so many attempts, which are all
// there are. Those of attempts are below that of the server.
func (s *spanSink) tree(t *testing.T, g *gate, n int) (server *tracev1.Span, attempts []*tracev1.Span) {
	t.Helper()
	var all []*tracev1.Span
	for end := time.Now().Add(patience); len(all) < n+1; all = s.take(t, g) {
		if time.Now().After(end) {
			t.Fatalf("%d spans, want %d: %v", len(all), n+1, all)
		}
	}
	for _, span := range all {
		if span.Kind == tracev1.Span_SPAN_KIND_SERVER {
			server = span
		} else {
			attempts = append(attempts, span)
		}
	}
	if server == nil || len(attempts) != n {
		t.Fatalf("%v", all)
	}
	for _, a := range attempts {
		if a.Kind != tracev1.Span_SPAN_KIND_CLIENT || !bytes.Equal(server.SpanId, a.ParentSpanId) {
			t.Errorf("%v is not below %v", a, server)
		}
	}
	return server, attempts
}

// take is the spans that have been made so far.
func (s *spanSink) take(t *testing.T, g *gate) []*tracev1.Span {
	t.Helper()
	if err := g.recorder.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.spans)
}

// says is an attribute in words, "" if there is none.
func says(s *tracev1.Span, name string) string {
	for _, a := range s.Attributes {
		if a.Key == name {
			if n := a.Value.GetIntValue(); n != 0 {
				return fmt.Sprint(n)
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// sayAll holds attributes, as names and values in turn.
func sayAll(t *testing.T, s *tracev1.Span, want ...string) {
	t.Helper()
	for i := 0; i < len(want); i += 2 {
		if got := says(s, want[i]); got != want[i+1] {
			t.Errorf("%s: %s is %q, want %q", s.Name, want[i], got, want[i+1])
		}
	}
}

const tracedWhole = "telemetry: {tracing: {sampleRatio: 1, trustIncoming: true}}\n"

// TestSpans is what the spans say of a request, over each pair of protocols: what
// went out as parent-id is the span of the attempt.
func TestSpans(t *testing.T) {
	versions := map[string]string{"HTTP/1": "1.1", "HTTP/2": "2"}
	for _, w := range byteWires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			sink, parents := collects(t), make(chan string, 1)
			address := serveOver(t, w.upstream, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { parents <- r.Header.Get("Traceparent") }))
			config := strings.Replace(singleOver(w.upstream, address), "forward: {", "matches: [{path: {prefix: /}}], forward: {rewrite: {prefix: /in}, ", 1)
			g := start(t, config+tracedWhole)
			request, err := http.NewRequest(http.MethodGet, "http://shop.example:81/a?b=c", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			client := visitOver(t, w.client, g)
			request.Host, request.URL.Host = request.URL.Host, strings.TrimPrefix(client.base, "http://")
			request.Header = http.Header{"Traceparent": {someMember + "-01"}, "Tracestate": {"a=1", "b=2"}, "User-Agent": {"test/1"}}
			resp, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			whole(t, resp)
			server, attempts := sink.tree(t, g, 1)
			attempt := attempts[0]
			if hex.EncodeToString(server.ParentSpanId) != someParent || server.TraceState != "a=1,b=2" || attempt.TraceState != "a=1,b=2" {
				t.Errorf("parent %x, states %q and %q", server.ParentSpanId, server.TraceState, attempt.TraceState)
			}
			if sent := within(t, parents); sent != "00-"+someTrace+"-"+hex.EncodeToString(attempt.SpanId)+"-01" {
				t.Errorf("%s went out, the span is %x", sent, attempt.SpanId)
			}
			sayAll(t, server, "http.request.method", "GET", "url.scheme", "http", "url.path", "/a", "url.query", "b=c", "server.address", "shop.example", "server.port", "81",
				"client.address", "127.0.0.1", "user_agent.original", "test/1", "network.protocol.version", versions[w.client], "http.response.status_code", "200", "error.type", "")
			sayAll(t, attempt, "http.request.method", "GET", "url.full", "http://"+address+"/in/a?b=c", "network.protocol.version", versions[w.upstream],
				"http.response.status_code", "200", "http.request.resend_count", "", "error.type", "")
			if !(server.StartTimeUnixNano <= attempt.StartTimeUnixNano && attempt.StartTimeUnixNano <= attempt.EndTimeUnixNano && attempt.EndTimeUnixNano <= server.EndTimeUnixNano) {
				t.Error("the attempt is not within the exchange")
			}
		})
	}
}

// TestSpansOfTunnels is one span each for a websocket, which ends with it.
func TestSpansOfTunnels(t *testing.T) {
	for _, w := range byteWires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			sink := collects(t)
			g := start(t, singleOver(w.upstream, tunnelServer(t, w.upstream, echoes))+tracedWhole)
			s := switcherOver(t, w.client, g)
			o := s.mustOpen(s.ask("/chat", "hello", "traceparent", someMember+"-01"))
			o.reads(t, "hello")
			if spans := sink.take(t, g); len(spans) != 0 {
				t.Errorf("%v before the end", spans)
			}
			_ = o.CloseWrite()
			o.ends(t)
			_ = o.Close()
			server, attempts := sink.tree(t, g, 1)
			status := map[string]string{"HTTP/1": "101", "HTTP/2": "200"}
			method := map[string]string{"HTTP/1": "GET", "HTTP/2": "CONNECT"}
			sayAll(t, server, "http.request.method", method[w.client], "http.response.status_code", status[w.client], "error.type", "")
			sayAll(t, attempts[0], "http.request.method", method[w.upstream], "http.response.status_code", status[w.upstream], "error.type", "")
		})
	}
}

// TestSpansOfCopies is the span of a mirror, whose trace has the same state.
func TestSpansOfCopies(t *testing.T) {
	sink := collects(t)
	seen := make(chan string, 2)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Traceparent") })
	g := start(t, mirroring("HTTP/1", serve(t, h), serve(t, h), "")+tracedWhole)
	client := g.dial()
	client.send("GET / HTTP/1.1\r\nHost: h\r\ntraceparent: " + someMember + "-01\r\ntracestate: a=1\r\n\r\n")
	client.head()
	sent := []string{within(t, seen), within(t, seen)}
	_, attempts := sink.tree(t, g, 2)
	if sent[0] == sent[1] {
		t.Errorf("%q", sent)
	}
	for _, a := range attempts {
		if a.TraceState != "a=1" || !slices.Contains(sent, "00-"+someTrace+"-"+hex.EncodeToString(a.SpanId)+"-01") {
			t.Errorf("%v for %q", a, sent)
		}
	}
}

// TestSpansOfCalls is how calls of gRPC end, in their trailers or in a head that
// has nothing behind it.
func TestSpansOfCalls(t *testing.T) {
	for _, client := range []string{"HTTP/1", "HTTP/2"} {
		for _, upstream := range []string{"HTTP/1", "HTTP/2"} {
			for _, alone := range []bool{true, false} {
				sink := collects(t)
				h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if alone {
						w.Header().Set("Grpc-Status", "5")
						return
					}
					_, _ = io.WriteString(w, "\x00\x00\x00\x00\x00")
					_ = http.NewResponseController(w).Flush()
					w.Header().Set(http.TrailerPrefix+"Grpc-Status", "5")
				})
				g := start(t, singleOver(upstream, serveOver(t, upstream, h))+tracedWhole)
				resp, err := func() (*http.Response, error) {
					v := visitOver(t, client, g)
					return v.Post(v.base+"/shop.Cart/Add", "application/grpc+proto", strings.NewReader("\x00\x00\x00\x00\x00"))
				}()
				if err != nil {
					t.Fatal(err)
				}
				whole(t, resp)
				server, attempts := sink.tree(t, g, 1)
				for _, s := range append(attempts, server) {
					sayAll(t, s, "rpc.system.name", "grpc", "rpc.method", "shop.Cart/Add", "rpc.response.status_code", "NOT_FOUND")
				}
				if server.Status.GetCode() != tracev1.Status_STATUS_CODE_UNSET || attempts[0].Status.GetCode() != tracev1.Status_STATUS_CODE_ERROR {
					t.Errorf("%v, %v", server, attempts)
				}
			}
		}
	}
}

// TestSpanBehindProxy is the scheme and the client that a proxy tells of, if it is
// trusted.
func TestSpanBehindProxy(t *testing.T) {
	for proto, scheme := range map[string]string{"https": "https", "wss": "https", "http": "http", "": "http"} {
		for _, trusted := range []bool{true, false} {
			sink := collects(t)
			config := single(serve(t, http.NotFoundHandler()))
			client := "127.0.0.1"
			if trusted {
				config = strings.Replace(config, "address: 127.0.0.1:1", "address: 127.0.0.1:1, trustedProxies: [127.0.0.0/8]", 1)
				client = "192.0.2.1"
			} else {
				scheme = "http"
			}
			g := start(t, config+tracedWhole)
			c := g.dial()
			lines := "X-Forwarded-For: 192.0.2.1\r\n"
			if proto != "" {
				lines += "X-Forwarded-Proto: " + proto + "\r\n"
			}
			c.send("GET / HTTP/1.1\r\nHost: h\r\n" + lines + "\r\n")
			c.head()
			server, _ := sink.tree(t, g, 1)
			sayAll(t, server, "url.scheme", scheme, "client.address", client, "network.peer.address", "127.0.0.1")
		}
	}
}
