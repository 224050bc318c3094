package proxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

const emptyAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// TestStreamHeads is what becomes of the head of a stream on its way to HTTP/1.1,
// line by line.
func TestStreamHeads(t *testing.T) {
	b := newBackend(t)
	f := start(t, single(b.address())).frames()
	for _, c := range []struct {
		name           string
		method, path   string
		fields         []string
		lines, framing string
		body           string // sent, and as it goes upstream
		coded          string
	}{
		{name: "plain", method: "GET", path: "/"},
		{name: "query", method: "GET", path: "/a?b=c&d=%20"},
		{name: "path in its normal form", method: "GET", path: "//x/../a%2Fb/%7e"},
		{name: "crumbs of cookies", method: "GET", path: "/", fields: []string{"cookie", "a=1", "x", "y", "cookie", "b=2", "cookie", "c=3"}, lines: "cookie: a=1; b=2; c=3\r\nx: y\r\n"},
		{name: "lines of one name", method: "GET", path: "/", fields: []string{"x", "1", "x", "2"}, lines: "x: 1\r\nx: 2\r\n"},
		{name: "underscores", method: "GET", path: "/", fields: []string{"x_auth_user", "evil", "x-auth-user", "good"}, lines: "x-auth-user: good\r\n"},
		{name: "host as well", method: "GET", path: "/", fields: []string{"host", "h"}},
		{name: "length", method: "POST", path: "/", fields: []string{"content-length", "5"}, framing: "Content-Length: 5\r\n", body: "hello", coded: "hello"},
		{name: "length 0", method: "POST", path: "/", fields: []string{"content-length", "0"}, framing: "Content-Length: 0\r\n"},
		{name: "no body where one could be", method: "POST", path: "/", framing: "Content-Length: 0\r\n"},
		{name: "no body of a PUT", method: "PUT", path: "/", framing: "Content-Length: 0\r\n"},
		{name: "no body of a PATCH", method: "PATCH", path: "/", framing: "Content-Length: 0\r\n"},
		{name: "no body of a DELETE", method: "DELETE", path: "/"},
		{name: "scheme that is claimed", method: "GET", path: "/", fields: []string{"forwarded", "proto=https"}, lines: "forwarded: proto=https\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := f.open(c.body == "", c.method, c.path, c.fields...)
			if c.body != "" {
				f.must(f.WriteData(id, true, []byte(c.body)))
			}
			up := b.accept()
			up.t = t
			want := c.path
			if strings.HasPrefix(want, "//") {
				want = "/a%2Fb/~"
			}
			up.sees(once(c.method+" "+want, c.lines, c.framing) + c.coded)
			up.send(strings.Replace(emptyAnswer, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
			if r := f.await(id); r.status != "200" || r.get("connection") != "" {
				t.Errorf("%+v", r)
			}
			up.gone()
		})
	}
}

// TestStreamTrailersUp sends a body without a length and trailers: as chunks.
func TestStreamTrailersUp(t *testing.T) {
	b := newBackend(t)
	f := start(t, single(b.address())).frames()
	id := f.open(false, "POST", "/", "te", "trailers", "trailer", "x-sum")
	f.must(f.WriteData(id, false, []byte("hello")))
	f.must(f.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: f.encode("x-sum", "5", "x_sum", "6", "x-forwarded-for", "evil"), EndHeaders: true, EndStream: true,
	}))
	up := b.accept()
	head := up.head()
	for _, line := range []string{"trailer: x-sum\r\n", "Connection: TE\r\nTE: trailers\r\n", "Transfer-Encoding: chunked\r\n"} {
		if !strings.Contains(head, line) {
			t.Errorf("no %q in %q", line, head)
		}
	}
	up.sees("5\r\nhello\r\n0\r\nx-sum: 5\r\n\r\n")
	up.send("HTTP/1.1 200 OK\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\nGrpc-Status: 0\r\n\r\n")
	r := f.await(id)
	if !r.clean || string(r.body) != "ok" || len(r.trailers) != 2 || fieldOf(r.trailers, "x-t") != "1" || fieldOf(r.trailers, "grpc-status") != "0" ||
		r.get("transfer-encoding") != "" || r.get("trailer") != "X-T" {
		t.Errorf("%+v", r)
	}
}

// TestStreamEdits is header operations on a stream.
func TestStreamEdits(t *testing.T) {
	b := newBackend(t)
	f := start(t, manifest(
		"clusters: [{name: main, endpoints: [{address: '"+b.address()+"'}]}]",
		"routes: [{name: all, matches: [{path: {prefix: /v1}}], forward: {backends: [{cluster: main}], rewrite: {prefix: /api, host: inside}},",
		"  requestHeaders: {remove: [x-gone, X-Forwarded-Host], set: [{name: X-Set, value: new}], add: [{name: X-Add, value: '2'}]},",
		"  responseHeaders: {remove: [server], set: [{name: Cache-Control, value: no-store}], add: [{name: Set-Cookie, value: b=2}]}}]",
	)).frames()
	id := f.open(true, "GET", "/v1/a?b", "x-gone", "1", "x-set", "old", "x-add", "1")
	up := b.accept()
	up.sees("GET /api/a?b HTTP/1.1\r\nHost: inside\r\nx-add: 1\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Set: new\r\nX-Add: 2\r\n\r\n")
	up.send("HTTP/1.1 200 OK\r\nDate: now\r\nServer: x\r\nCache-Control: public\r\nSet-Cookie: a=1\r\nKeep-Alive: 5\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 0\r\n\r\n")
	var got []string
	for _, field := range f.await(id).fields {
		got = append(got, field.Name+"="+field.Value)
	}
	if want := "date=now set-cookie=a=1 content-length=0 cache-control=no-store set-cookie=b=2"; strings.Join(got, " ") != want {
		t.Errorf("fields %q, want %q", got, want)
	}
}

// TestStreamTrusted is a trusted peer, which says who the client is and how it
// came.
func TestStreamTrusted(t *testing.T) {
	b := newBackend(t)
	f := start(t, trusting("clusters: [{name: main, endpoints: [{address: '"+b.address()+"'}]}]", plainRoute)).frames()
	id := f.open(true, "GET", "/", "x-forwarded-for", "192.0.2.9", "x-forwarded-proto", "https", "x-forwarded-host", "public")
	up := b.accept()
	up.sees("GET / HTTP/1.1\r\nHost: h\r\nx-forwarded-proto: https\r\nx-forwarded-host: public\r\nX-Forwarded-For: 192.0.2.9, 127.0.0.1\r\n\r\n")
	up.send(emptyAnswer)
	f.await(id)
}

// TestStreamMalformed is heads that RFC 9113 sections 8.2 and 8.3 call malformed,
// and some that are only refused. Nothing of either reaches the backend, and the
// connection goes on.
func TestStreamMalformed(t *testing.T) {
	usual := []string{":method", "GET", ":scheme", "http", ":authority", "h", ":path", "/"}
	with := func(fields ...string) []string { return append(slices.Clip(usual), fields...) }
	long := strings.Repeat("a", 9000)
	b := newBackend(t)
	f := start(t, single(b.address())).frames()
	for _, c := range []struct {
		name   string
		fields []string
		status string // "": the stream is reset
	}{
		{"connection", with("connection", "close"), ""},
		{"keep-alive", with("keep-alive", "5"), ""},
		{"proxy-connection", with("proxy-connection", "close"), ""},
		{"transfer-encoding", with("transfer-encoding", "chunked"), ""},
		{"upgrade", with("upgrade", "websocket"), ""},
		{"te other than trailers", with("te", "gzip"), ""},
		{"upper case", with("X-Upper", "1"), ""},
		{"space in a name", with("x y", "1"), ""},
		{"colon in a name", with("x:y", "1"), ""},
		{"empty name", with("", "1"), ""},
		{"CR in a value", with("x", "a\rb"), ""},
		{"LF in a value", with("x", "a\nTransfer-Encoding: chunked"), ""},
		{"NUL in a value", with("x", "a\x00b"), ""},
		{"space before a value", with("x", " a"), ""},
		{"length twice", with("content-length", "1", "content-length", "1"), ""},
		{"length without a body", with("content-length", "1"), ""},
		{"length that is no number", with("content-length", "+0"), ""},
		{"no :path", usual[:6], ""},
		{"empty :path", append(usual[:6:6], ":path", ""), ""},
		{"no :method", usual[2:], ""},
		{"no :scheme", append([]string{":method", "GET"}, usual[4:]...), ""},
		{":path twice", with(":path", "/"), ""},
		{":status", with(":status", "200"), ""},
		{"pseudo-header field behind others", append([]string{"x", "1"}, usual...), ""},
		{"unknown pseudo-header field", with(":x", "1"), ""},
		{"user information", []string{":method", "GET", ":scheme", "http", ":authority", "u@h", ":path", "/"}, ""},
		{"space in :path", append(usual[:6:6], ":path", "/ HTTP/1.1"), "400"},
		{"LF in :path", append(usual[:6:6], ":path", "/\n"), ""},
		{"relative :path", append(usual[:6:6], ":path", "x"), "400"},
		{"bad escape", append(usual[:6:6], ":path", "/%zz"), "400"},
		{"NUL escaped", append(usual[:6:6], ":path", "/%00"), "400"},
		{"host that differs", with("host", "other"), "400"},
		{"no authority", append(usual[:4:4], ":path", "/"), "400"},
		{"bad authority", []string{":method", "GET", ":scheme", "http", ":authority", "h:port", ":path", "/"}, "400"},
		{"expectation", with("expect", "miracle"), "417"},
		{"long :path", append(usual[:6:6], ":path", "/"+long), "414"},
		{"CONNECT", []string{":method", "CONNECT", ":authority", "h:443"}, "405"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := f.await(f.openWith(true, c.fields...))
			switch {
			case c.status == "" && (r.reset == nil || *r.reset != http2.ErrCodeProtocol), c.status != "" && r.status != c.status:
				t.Errorf("%+v", r)
			case c.status != "" && !strings.Contains(r.get("proxy-status"), "error=http_request_error;"):
				t.Errorf("%+v", r)
			}
		})
	}
	b.untouched()
	f.serves(b)
}

// TestStreamHeadLimits refuses heads over the limits of the listener.
func TestStreamHeadLimits(t *testing.T) {
	b := newBackend(t)
	g := start(t, strings.Replace(single(b.address()), "127.0.0.1:1}", "127.0.0.1:1, limits: {maxHeaderBytes: 2000, maxHeaders: 10, maxTargetBytes: 100}}", 1))
	f := g.frames()
	many := func(n, size int) (fields []string) {
		for i := range n {
			fields = append(fields, fmt.Sprint("x-", i), strings.Repeat("v", size))
		}
		return fields
	}
	for _, c := range []struct {
		path   string
		fields []string
		status string
	}{
		{"/", many(11, 1), "431"},
		{"/", many(1, 3000), "431"},
		{"/", many(1, 10000), "431"},
		{"/" + strings.Repeat("a", 100), nil, "414"},
	} {
		if r := f.await(f.open(true, "GET", c.path, c.fields...)); r.status != c.status {
			t.Errorf("%d fields: %+v", len(c.fields)/2, r)
		}
	}
	b.untouched()
	id := f.open(true, "GET", "/"+strings.Repeat("a", 99), many(5, 10)...)
	up := b.accept()
	up.head()
	up.send(emptyAnswer)
	if r := f.await(id); r.status != "200" {
		t.Errorf("%+v", r)
	}
}

// TestStreamWrongLength is bodies that are not as long as was said. The backend
// never sees the end of one.
func TestStreamWrongLength(t *testing.T) {
	for name, body := range map[string]string{"short": "1234", "long": "123456"} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			g := start(t, single(b.address()))
			f := g.frames()
			id := f.open(false, "POST", "/", "content-length", "5")
			up := b.accept()
			up.head()
			f.must(f.WriteData(id, true, []byte(body)))
			if code := f.resets(id); code != http2.ErrCodeProtocol {
				t.Error(code)
			}
			if raw, _ := up.rest(); len(raw) >= 5 {
				t.Errorf("the backend sees %q", raw)
			}
			f.serves(b)
		})
	}
}

// TestNoUpgradeToHTTP2 leaves an offer of h2c on HTTP/1.1 alone (RFC 9113 section
// 3.1): the answer comes over HTTP/1.1.
func TestNoUpgradeToHTTP2(t *testing.T) {
	b := newBackend(t)
	client := start(t, single(b.address())).dial()
	client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
	up := b.accept()
	up.sees(once("GET /", "", ""))
	up.send(emptyAnswer)
	client.sees(dated(emptyAnswer))
}

// TestTrailersBehindNoBody has an upstream send trailers behind the heads of answers
// without a body, at once or when the head has been passed on. What ends with its head
// by its meaning has none (RFC 9110 sections 9.3.2, 15.3.5 and 15.4.5); a length of 0
// ends nothing on a stream.
func TestTrailersBehindNoBody(t *testing.T) {
	b := newBackend(t)
	f := start(t, singleOver("HTTP/2", b.address())).frames()
	var up *framer
	for _, c := range []struct {
		method, status, length string
		kept                   bool
	}{
		{"HEAD", "200", "5", false}, {"HEAD", "200", "", false}, {"GET", "204", "", false}, {"GET", "304", "5", false}, {"GET", "304", "", false},
		{"GET", "200", "0", true}, {"POST", "200", "0", true}, {"GET", "200", "", true}, {"GET", "205", "0", true},
	} {
		for _, later := range []bool{false, true} {
			id := f.open(true, c.method, "/")
			if up == nil {
				up = b.frames()
			}
			fields := []string{":status", c.status}
			if c.length != "" {
				fields = append(fields, "content-length", c.length)
			}
			asked := up.request().StreamID
			r := &reply{}
			up.answer(asked, false, fields...)
			if later {
				r = f.head(id)
			}
			up.answer(asked, true, "x-sum", "1")
			for !r.clean && r.reset == nil {
				if frame := f.next(); frame.Header().StreamID == id {
					f.take(r, frame)
				}
			}
			if r.status != c.status || r.reset != nil || r.get("content-length") != c.length || (fieldOf(r.trailers, "x-sum") == "1") != c.kept {
				t.Errorf("%+v, later %v: %+v", c, later, r)
			}
		}
	}
}

// TestFramingAmongTrailersOfAnswers leaves out what frames or routes a message; of what
// belongs to a connection on HTTP/1 alone, the answer is malformed (RFC 9113 section
// 8.2.2).
func TestFramingAmongTrailersOfAnswers(t *testing.T) {
	b := newBackend(t)
	f := start(t, singleOver("HTTP/2", b.address())).frames()
	id := f.open(true, "GET", "/")
	up := b.frames()
	for i, name := range []string{"content-length", "host", "trailer", "expect", "http2-settings", "connection", "transfer-encoding", "keep-alive"} {
		if i > 0 {
			id = f.open(true, "GET", "/")
		}
		asked := up.request().StreamID
		up.answer(asked, false, ":status", "200")
		up.must(up.WriteData(asked, false, []byte("ok")))
		up.answer(asked, true, "x-sum", "1", name, "9")
		r := f.await(id)
		if malformed := i >= 5; malformed != (r.reset != nil) {
			t.Errorf("%s: %+v", name, r)
		} else if !malformed && (string(r.body) != "ok" || len(r.trailers) != 1 || fieldOf(r.trailers, "x-sum") != "1") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
