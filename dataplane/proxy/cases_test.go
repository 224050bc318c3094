package proxy_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// casesFromTheField are faults that users met in other proxies, and which tests
// hold that they are none here. Those of this package run in every pair of
// protocols in which they make sense; a name with a dot is a dialogue.
var casesFromTheField = []struct {
	number int
	told   string
	tests  []string
}{
	{2, "a websocket lives through an apply of another route", []string{"TestTunnelsThroughAStorm", "websocket-apply.txt"}},
	{9, "an answer comes early, and the upload is not read", []string{"TestCaseEarlyAnswer", "TestEarlyAnswer", "TestStreamEarlyAnswer", "early-answer.txt"}},
	{10, "the backend dies in the middle of its answer", []string{"TestCaseCutAnswer", "TestStreamCut", "cut-in-chunk.txt", "cut-in-length.txt"}},
	{11, "answers without a body, or without a length", []string{"TestWireNoBody", "TestStreamUntilClose", "no-body.txt", "no-length.txt"}},
	{12, "leave to send a body is refused", []string{"TestWireInterim", "expect-refused-401.txt", "expect-refused-417.txt"}},
	{13, "a slow upload is no silence", []string{"TestCaseSlowUpload", "timeout-body.txt"}},
	{14, "a POST goes to the endpoint that is there", []string{"TestCaseSecondEndpoint", "retry-refused.txt"}},
	{15, "calls of gRPC: trailers alone, and those that are cancelled", []string{"TestCallStatus", "TestCallCancelled", "TestAbandoned", "TestCallTimeout", "te-trailers.txt"}},
	{16, "Connection takes nothing away that is ours", []string{"TestCaseConnectionNames", "connection-names.txt"}},
	{17, "an escaped slash is no slash", []string{"TestCasePaths", "paths.txt"}},
	{18, "one form of a path, matched and forwarded", []string{"TestCasePaths", "paths.txt"}},
	{19, "a decision not to sample is kept", []string{"TestTraceContext", "trace-off.txt"}},
	{20, "underscores stand for no dashes", []string{"TestWireFields", "underscores.txt"}},
}

// TestCasesAreHeld holds that the tests of the list are there.
func TestCasesAreHeld(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for _, c := range casesFromTheField {
		for _, test := range c.tests {
			if strings.HasSuffix(test, ".txt") {
				if _, err := os.Stat(filepath.Join("testdata", test)); err != nil {
					t.Errorf("case %d: %v", c.number, err)
				}
			} else if !strings.Contains(source.String(), "func "+test+"(t *testing.T)") {
				t.Errorf("case %d: there is no %s", c.number, test)
			}
		}
	}
}

// TestCaseEarlyAnswer is case 9: the answer is there while most of the body is
// not, and the next request is served.
func TestCaseEarlyAnswer(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 1024))
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			_, _ = io.WriteString(w, "no\n")
		}
	}
	overWires(t, h, func(t *testing.T, client *visitor, _ *gate) {
		// A body that never ends by itself: who waits for its end hangs.
		body, more := io.Pipe()
		defer more.Close()
		go func() {
			for piece := make([]byte, 4096); ; {
				if _, err := more.Write(piece); err != nil {
					return
				}
			}
		}()
		resp, err := client.Post(client.base+"/", "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || string(got) != "no\n" {
			t.Errorf("%s, %q, %v", resp.Status, got, err)
		}
		resp, err = client.Get(client.base + "/")
		if err != nil {
			t.Fatal(err)
		}
		_ = whole(t, resp)
	})
}

// TestCaseCutAnswer is case 10: what is cut short looks cut short, and the record
// says by whom.
func TestCaseCutAnswer(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", "100")
		}
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	overWires(t, h, func(t *testing.T, client *visitor, g *gate) {
		for i, path := range []string{"/length", "/chunks"} {
			// On QUIC the news that a stream is cut may overtake its head.
			if resp, err := client.Get(client.base + path); err == nil {
				got, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err == nil || !strings.HasPrefix("some", string(got)) {
					t.Errorf("%s: %q, %v", path, got, err)
				}
			}
			if r := g.recent(i + 1)[i]; r.Reason != "http_response_incomplete" {
				t.Errorf("%s: %+v", path, r)
			}
		}
	})
}

// TestCaseSlowUpload is case 13: an upload that takes longer than the client may
// be silent.
func TestCaseSlowUpload(t *testing.T) {
	const silence, pace, pieces = 2 * time.Second, 100 * time.Millisecond, 25
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			config := singleOver(w.upstream, serveOver(t, w.upstream, http.HandlerFunc(echo)))
			client := visitOver(t, w.client, start(t, strings.Replace(config, "127.0.0.1:1}", "127.0.0.1:1, timeouts: {bodyIdle: 2s}}", 1)))
			body, more := io.Pipe()
			go func() {
				tick := time.NewTicker(pace)
				defer tick.Stop()
				for range pieces {
					_, _ = io.WriteString(more, "piece ")
					<-tick.C
				}
				_ = more.Close()
			}()
			began := time.Now()
			if got := client.post(t, "/", body); string(got) != strings.Repeat("piece ", pieces) {
				t.Errorf("%q", got)
			}
			if took := time.Since(began); took < silence {
				t.Errorf("over after %v: that shows nothing", took)
			}
		})
	}
}

// TestCaseSecondEndpoint is case 14: the body is whole, wherever it goes in the
// end.
func TestCaseSecondEndpoint(t *testing.T) {
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			t.Parallel()
			address := serveOver(t, w.upstream, http.HandlerFunc(echo))
			config := strings.Replace(singleOver(w.upstream, address), "endpoints: [", "endpoints: [{address: '"+refusing(t)+"'}, ", 1)
			client := visitOver(t, w.client, start(t, config))
			for _, size := range []int{5, 100 << 10} {
				for range 4 {
					sent := string(noise(size))
					if got := client.post(t, "/", strings.NewReader(sent)); string(got) != sent {
						t.Errorf("%d bytes came back, of %d", len(got), size)
					}
				}
			}
		})
	}
}

// TestCaseConnectionNames is case 16, from the only protocol that has such a
// field.
func TestCaseConnectionNames(t *testing.T) {
	for _, w := range wires[:2] {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			seen := make(chan *http.Request, 1)
			g := start(t, singleOver(w.upstream, serveOver(t, w.upstream, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r }))))
			client := g.dial()
			client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, Host, X-Hop\r\nX-Forwarded-For: 192.0.2.1\r\nX-Hop: 1\r\nX-End: 2\r\n\r\n")
			client.head()
			r := <-seen
			if r.Host != "h" || r.Header.Get("X-Forwarded-For") != "192.0.2.1, 127.0.0.1" || r.Header.Get("X-Forwarded-Proto") != "http" ||
				r.Header.Get("X-Forwarded-Host") != "h" || r.Header.Get("X-Hop") != "" || r.Header.Get("X-End") != "2" {
				t.Errorf("%s %v", r.Host, r.Header)
			}
		})
	}
}

// TestCasePaths is cases 17 and 18: what matches /admin, and what is forwarded.
func TestCasePaths(t *testing.T) {
	for _, w := range byteWires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			seen := make(chan string, 1)
			config := singleOver(w.upstream, serveOver(t, w.upstream, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.RequestURI })))
			g := start(t, strings.Replace(config, "routes: [", "routes: [{name: admin, matches: [{path: {prefix: /admin}}], respond: {status: 403}}, {name: ab, matches: [{path: {prefix: /a/b}}], respond: {status: 403}}, ", 1))
			ask := func(path string) string {
				if w.client == "HTTP/2" {
					f := g.frames()
					return f.await(f.open(true, "GET", path)).status
				}
				client := g.dial()
				client.send("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n")
				return client.head()[len("HTTP/1.1 "):][:3]
			}
			for path, want := range map[string]string{
				"/a%2Fb": "/a%2Fb", "/a%2fb": "/a%2fb", "/a%252Fb": "/a%252Fb", "/a%5Cb": "/a%5Cb", "/admins": "/admins", "/%61dminx?q=%2e": "/adminx?q=%2e",
				"/x/..%2fadmin": "/x/..%2fadmin", "/x//y/./z": "/x/y/z",
				"/admin": "", "//admin": "", "/x/../admin": "", "/x/%2e%2e/admin": "", "/%2E/admin/x": "", "/%61dmin": "", "/admin/../admin": "", "/a//b": "", "/a/%62": "",
			} {
				switch status := ask(path); {
				case want == "" && status != "403":
					t.Errorf("%s: status %s", path, status)
				case want != "":
					if got := <-seen; got != want || status != "200" {
						t.Errorf("%s: forwarded as %s, status %s", path, got, status)
					}
				}
			}
		})
	}
}
