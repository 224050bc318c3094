package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// TestStreamEarlyAnswer is case 9 on a stream: the answer is there while the
// client still uploads, the rest is refused without an error, and the connection
// goes on.
func TestStreamEarlyAnswer(t *testing.T) {
	b := newBackend(t)
	f := start(t, single(b.address())).frames()
	id := f.open(false, "POST", "/upload", "content-length", fmt.Sprint(10<<20))
	f.must(f.WriteData(id, false, make([]byte, 1024)))
	up := b.accept()
	up.sees(once("POST /upload", "", "Content-Length: 10485760\r\n"))
	if _, err := up.read(1024); err != nil {
		t.Fatal(err)
	}
	up.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno\n")
	r := f.await(id)
	if r.status != "413" || string(r.body) != "no\n" || !r.clean {
		t.Errorf("%+v", r)
	}
	if code := f.resets(id); code != http2.ErrCodeNo {
		t.Errorf("the rest is refused with %v", code)
	}
	up.gone()
	f.serves(b)
}

// TestStreamCancelled resets a stream while its answer is awaited, in the middle
// of its body, and while it uploads: the backend's connection is closed, and the
// client's goes on.
func TestStreamCancelled(t *testing.T) {
	stages := []struct {
		name    string
		prepare func(f *framer, b *backend) (uint32, *peer)
		status  int
	}{
		{"awaiting the answer", func(f *framer, b *backend) (uint32, *peer) {
			id := f.open(true, "GET", "/")
			up := b.accept()
			up.head()
			return id, up
		}, 499},
		{"in the middle of the answer", func(f *framer, b *backend) (uint32, *peer) {
			id := f.open(true, "GET", "/")
			up := b.accept()
			up.head()
			up.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
			f.head(id)
			return id, up
		}, 200},
		{"in the middle of the upload", func(f *framer, b *backend) (uint32, *peer) {
			id := f.open(false, "POST", "/", "content-length", "100")
			f.must(f.WriteData(id, false, []byte("some")))
			up := b.accept()
			up.head()
			if got, err := up.read(4); got != "some" {
				f.t.Fatal(got, err)
			}
			return id, up
		}, 499},
	}
	for _, stage := range stages {
		t.Run(stage.name, func(t *testing.T) {
			b := newBackend(t)
			g := start(t, single(b.address()))
			f := g.frames()
			id, up := stage.prepare(f, b)
			f.must(f.WriteRSTStream(id, http2.ErrCodeCancel))
			up.gone()
			if r := g.recent(1)[0]; r.Status != stage.status || r.Reason != "client_gone" {
				t.Errorf("recorded as %d %s", r.Status, r.Reason)
			}
			f.serves(b)
		})
	}
}

// TestStreamCut is answers that break off: the stream is reset, and never looks
// complete.
func TestStreamCut(t *testing.T) {
	for name, answer := range map[string]string{
		"length":                    "Content-Length: 100\r\n\r\nsome",
		"nothing of a length":       "Content-Length: 100\r\n\r\n",
		"chunk":                     "Transfer-Encoding: chunked\r\n\r\n64\r\nsome",
		"between chunks":            "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
		"before any chunk":          "Transfer-Encoding: chunked\r\n\r\n",
		"in the last chunk":         "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\n",
		"in trailers":               "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\nX-T: 1\r\n",
		"bad chunk size":            "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\nzz\r\n",
		"chunk longer than it says": "Transfer-Encoding: chunked\r\n\r\n4\r\nsome more\r\n0\r\n\r\n",
		"bad trailers":              "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\nX Sum: 5\r\n\r\n",
		"bare LF after a chunk":     "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			g := start(t, single(b.address()))
			f := g.frames()
			id := f.open(true, "GET", "/")
			up := b.accept()
			up.head()
			up.send("HTTP/1.1 200 OK\r\n" + answer)
			up.close()
			if r := f.await(id); r.clean || *r.reset != http2.ErrCodeInternal || !strings.HasPrefix("some", string(r.body)) {
				t.Errorf("%+v", r)
			}
			if r := g.recent(1)[0]; r.Status != 200 || r.Reason != "http_response_incomplete" && r.Reason != "http_protocol_error" {
				t.Errorf("recorded as %d %s", r.Status, r.Reason)
			}
			f.serves(b)
		})
	}
}

// TestStreamUploadCut is a client whose connection ends in the middle of a body:
// the backend does not get an end of it.
func TestStreamUploadCut(t *testing.T) {
	b := newBackend(t)
	f := start(t, single(b.address())).frames()
	id := f.open(false, "POST", "/")
	f.must(f.WriteData(id, false, []byte("some")))
	up := b.accept()
	up.head()
	up.sees("4\r\nsome\r\n")
	_ = f.conn.Close()
	if rest, err := up.rest(); rest != "" {
		t.Errorf("the backend sees %q, %v", rest, err)
	}
}

// TestStreamReset is the same with a reset of the backend's connection.
func TestStreamReset(t *testing.T) {
	b := newBackend(t)
	f := start(t, single(b.address())).frames()
	id := f.open(true, "GET", "/")
	up := b.accept()
	up.head()
	up.send("HTTP/1.1 200 OK\r\n\r\nuntil the close")
	f.head(id)
	up.reset()
	if r := f.await(id); r.clean || *r.reset != http2.ErrCodeInternal {
		t.Errorf("%+v", r)
	}
	f.serves(b)
}

// TestStreamUntilClose is an answer whose end is that of its connection.
func TestStreamUntilClose(t *testing.T) {
	b := newBackend(t)
	f := start(t, single(b.address())).frames()
	id := f.open(true, "GET", "/")
	up := b.accept()
	up.head()
	up.send("HTTP/1.0 200 OK\r\n\r\nuntil the close")
	up.close()
	if r := f.await(id); !r.clean || string(r.body) != "until the close" || r.get("content-length") != "" {
		t.Errorf("%+v", r)
	}
}

// ownAnswers is a snapshot with a route for each kind of answer that the data
// plane makes itself.
func ownAnswers(backend, dead string) string {
	return manifest(
		"clusters:",
		"- {name: main, endpoints: [{address: '"+backend+"'}]}",
		"- {name: dead, endpoints: [{address: '"+dead+"'}]}",
		"- {name: none, endpoints: []}",
		"routes:",
		"- {name: dead, matches: [{path: {prefix: /502}}], forward: {backends: [{cluster: dead}], retry: {attempts: 0}}}",
		"- {name: none, matches: [{path: {prefix: /503}}], forward: {backends: [{cluster: none}]}}",
		"- {name: late, matches: [{path: {prefix: /504}}], forward: {backends: [{cluster: main}], timeouts: {firstByte: 0.05s}, retry: {attempts: 0}}}",
		"- {name: small, matches: [{path: {prefix: /413}}], limits: {maxRequestBytes: 10}, forward: {backends: [{cluster: main}]}}",
		"- {name: direct, matches: [{path: {prefix: /200}}], respond: {status: 200, body: direct}}",
		"- {name: away, matches: [{path: {prefix: /302}}], redirect: {status: 302, path: /there}}",
	)
}

// TestStreamOwnAnswers is the answers that the data plane makes itself, and what
// a client of gRPC is told instead.
func TestStreamOwnAnswers(t *testing.T) {
	b := newBackend(t)
	g := start(t, ownAnswers(b.address(), refusing(t)))
	f := g.frames()
	for _, c := range []struct{ path, reason, grpc string }{
		{"/404", "destination_not_found", "12"},
		{"/502", "connection_refused", "14"},
		{"/503", "destination_unavailable", "14"},
		{"/504", "http_response_timeout", "4"},
	} {
		r := f.await(f.open(true, "GET", c.path))
		if r.status != c.path[1:] || !strings.Contains(r.get("proxy-status"), "error="+c.reason+";") || r.get("date") == "" ||
			r.get("content-length") != fmt.Sprint(len(r.body)) || len(r.body) == 0 || r.get("connection") != "" {
			t.Errorf("%s: %+v", c.path, r)
		}
		r = f.await(f.open(true, "HEAD", c.path))
		if r.status != c.path[1:] || len(r.body) > 0 || r.get("content-length") == "0" {
			t.Errorf("HEAD %s: %+v", c.path, r)
		}
		r = f.await(f.open(true, "GET", c.path, "accept", "application/json"))
		if r.get("content-type") != "application/json" || !strings.HasPrefix(string(r.body), `{"status":`+c.path[1:]) {
			t.Errorf("%s: %s", c.path, r.body)
		}
		r = f.await(f.open(true, "POST", c.path, "content-type", "application/grpc", "te", "trailers"))
		if r.status != "200" || r.get("content-type") != "application/grpc" || r.get("grpc-status") != c.grpc || r.get("grpc-message") == "" || r.get("date") == "" ||
			len(r.body) > 0 || r.trailers != nil || !strings.Contains(r.get("proxy-status"), c.reason) {
			t.Errorf("gRPC %s: %+v", c.path, r)
		}
	}
	if r := f.await(f.open(true, "GET", "/200")); r.status != "200" || string(r.body) != "direct" || r.get("proxy-status") != "" {
		t.Errorf("%+v", r)
	}
	if r := f.await(f.open(true, "GET", "/302")); r.status != "302" || !strings.HasSuffix(r.get("location"), "/there") {
		t.Errorf("%+v", r)
	}
}

// TestCallTypes is which types of content are those of gRPC, whose clients are told of
// a fault in their own words (gRPC over HTTP/2, Content-Type).
func TestCallTypes(t *testing.T) {
	f := start(t, ownAnswers(newBackend(t).address(), refusing(t))).frames()
	for kind, status := range map[string]string{
		"application/grpc": "200", "application/grpc+proto": "200", "application/grpc+json": "200", "application/grpc;charset=x": "200",
		"application/grpc ; a=b": "200", "Application/GRPC": "200",
		"application/grpc-web": "503", "application/grpc-web+proto": "503", "application/grpc-web-text": "503", "application/grpcx": "503",
		"application/gRPc-web": "503", "application/grp": "503", "application/connect+proto": "503", "": "503",
	} {
		if r := f.await(f.open(true, "POST", "/503", "content-type", kind)); r.status != status || (r.get("grpc-status") == "14") != (status == "200") {
			t.Errorf("%q: %+v", kind, r)
		}
	}
}

// TestNoLengthIsAdded passes on answers without a body from an upstream of HTTP/2: what
// ends with its head has no length that the upstream did not give, trailers-only answers
// of gRPC above all. A client of HTTP/1 needs one.
func TestNoLengthIsAdded(t *testing.T) {
	for _, given := range []string{"", "0"} {
		fields := []string{":status", "200", "content-type", "application/grpc", "grpc-status", "5"}
		if given != "" {
			fields = append(fields, "content-length", given)
		}
		b := newBackend(t)
		f := start(t, singleOver("HTTP/2", b.address())).frames()
		id := f.open(true, "POST", "/a.B/C", "content-type", "application/grpc")
		up := b.frames()
		up.answer(up.request().StreamID, true, fields...)
		if r := f.await(id); r.status != "200" || r.get("grpc-status") != "5" || r.get("content-length") != given || r.trailers != nil {
			t.Errorf("%q: %+v", given, r)
		}
		client := start(t, singleOver("HTTP/2", b.address())).dial()
		client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		up = b.frames()
		up.answer(up.request().StreamID, true, fields...)
		if head := client.head(); !strings.Contains(head, "\r\nContent-Length: 0\r\n") {
			t.Errorf("%q: %q", given, head)
		}
	}
}

// TestStreamTooLarge refuses a body over the limit of its route: by its length
// before a byte has come, else when the limit is passed.
func TestStreamTooLarge(t *testing.T) {
	b := newBackend(t)
	f := start(t, ownAnswers(b.address(), refusing(t))).frames()
	r := f.await(f.open(false, "POST", "/413", "content-length", "11"))
	if r.status != "413" || !r.clean {
		t.Errorf("%+v", r)
	}
	b.untouched()
	id := f.open(false, "POST", "/413")
	f.must(f.WriteData(id, false, []byte("12345")))
	up := b.accept()
	up.head()
	f.must(f.WriteData(id, false, []byte("678901")))
	if r = f.await(id); r.status != "413" || !r.clean {
		t.Errorf("%+v", r)
	}
	if raw, _ := up.rest(); strings.Contains(raw, "\r\n0\r\n") {
		t.Errorf("the backend sees the end of a body: %q", raw)
	}
}
