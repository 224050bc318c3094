package telemetry

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headgate/headgate/dataplane/message"
)

// logged is the two lines of an exchange.
func logged(v *View, x *Exchange) (jsonLine, combined string) {
	var s stamp
	return string(appendJSONLine(nil, &s, v, x)), string(appendCombinedLine(nil, &s, x))
}

func TestLogLines(t *testing.T) {
	r := newRecorder(t, Options{})
	s := testSnapshot("v1", []string{"users"}, []string{"backend"})
	s.Telemetry.TracingOn, s.Telemetry.TrustIncoming = true, true
	v := r.View(s)
	for _, c := range []struct {
		name               string
		change             func(x *Exchange)
		wantJSON, wantText string
	}{{
		"served", func(x *Exchange) { try(v, x, "10.0.0.1:80", 200, "") },
		`{"time":"2026-11-29T22:32:50.123456Z","duration_ms":12.000,"listener":"web","client":"192.0.2.7","peer":"10.1.1.1:4242",` +
			`"method":"GET","scheme":"http","host":"api.example.com:8080","path":"/v1/users","query":"page=2","protocol":"HTTP/1.1",` +
			`"referer":"https://example.com/","user_agent":"curl/8.5.0","status":200,"bytes_in":5,"bytes_out":1234,` +
			`"route":"users","cluster":"backend","endpoint":"10.0.0.1:80","attempts":1,"upstream_ms":10.000,` +
			`"trace_id":"0af7651916cd43dd8448eb211c80319c","snapshot":"v1"}` + "\n",
		`192.0.2.7 - - [29/Nov/2026:22:32:50 +0000] "GET /v1/users?page=2 HTTP/1.1" 200 1234 "https://example.com/" "curl/8.5.0"` + "\n",
	}, {
		"failed", func(x *Exchange) {
			try(v, x, "10.0.0.1:80", 0, "connection_refused")
			x.Status, x.Reason, x.Detail, x.HTTPS = 502, "connection_refused", "no endpoint took the connection", true
			x.Ended = at(0) + 1_234_567
		},
		`{"time":"2026-11-29T22:32:50.123456Z","duration_ms":1.234,"listener":"web","client":"192.0.2.7","peer":"10.1.1.1:4242",` +
			`"method":"GET","scheme":"https","host":"api.example.com:8080","path":"/v1/users","query":"page=2","protocol":"HTTP/1.1",` +
			`"referer":"https://example.com/","user_agent":"curl/8.5.0","status":502,"bytes_in":5,"bytes_out":1234,` +
			`"route":"users","cluster":"backend","endpoint":"10.0.0.1:80","attempts":1,"upstream_ms":10.000,` +
			`"reason":"connection_refused","detail":"no endpoint took the connection",` +
			`"trace_id":"0af7651916cd43dd8448eb211c80319c","snapshot":"v1"}` + "\n",
		`192.0.2.7 - - [29/Nov/2026:22:32:50 +0000] "GET /v1/users?page=2 HTTP/1.1" 502 1234 "https://example.com/" "curl/8.5.0"` + "\n",
	}, {
		"tried again and again", func(x *Exchange) {
			try(v, x, "10.0.0.1:80", 0, "connection_refused")
			try(v, x, "10.0.0.2:80", 503, "")
			*v.Hedge(x) = Attempt{Endpoint: "10.0.0.3:80", Started: at(3), Ended: at(5), Hedge: true, Lost: true}
			x.Answered, x.NotRetried, x.Injected = 2, "the retry budget is spent", "delay"
			x.Host, x.Query, x.UserAgent, x.Referer, x.Trace = nil, nil, nil, nil, Trace{}
		},
		`{"time":"2026-11-29T22:32:50.123456Z","duration_ms":12.000,"listener":"web","client":"192.0.2.7","peer":"10.1.1.1:4242",` +
			`"method":"GET","scheme":"http","host":"","path":"/v1/users","protocol":"HTTP/1.1","status":200,"bytes_in":5,"bytes_out":1234,` +
			`"route":"users","cluster":"backend","endpoint":"10.0.0.2:80","attempts":3,"upstream_ms":10.000,"tries":[` +
			`{"n":1,"endpoint":"10.0.0.1:80","after_ms":1.000,"ms":10.000,"outcome":"connection_refused"},` +
			`{"n":2,"endpoint":"10.0.0.2:80","after_ms":1.000,"ms":10.000,"outcome":"503"},` +
			`{"n":3,"endpoint":"10.0.0.3:80","after_ms":3.000,"ms":2.000,"outcome":"lost","hedge":true}],` +
			`"not_retried":"the retry budget is spent","injected":"delay","snapshot":"v1"}` + "\n",
		`192.0.2.7 - - [29/Nov/2026:22:32:50 +0000] "GET /v1/users HTTP/1.1" 200 1234 "-" "-"` + "\n",
	}, {
		"a head that was no head", func(x *Exchange) {
			*x = Exchange{Started: x.Started, Ended: x.Ended, Status: 400, Reason: "http_request_error"}
		},
		`{"time":"2026-11-29T22:32:50.123456Z","duration_ms":12.000,"listener":"","method":"","scheme":"http","host":"","path":"",` +
			`"protocol":"HTTP/0.0","status":400,"bytes_in":0,"bytes_out":0,"reason":"http_request_error","snapshot":"v1"}` + "\n",
		`- - - [29/Nov/2026:22:32:50 +0000] "-" 400 0 "-" "-"` + "\n",
	}, {
		"hostile", func(x *Exchange) {
			*x = Exchange{
				Started: x.Started, Ended: x.Ended, Major: 2, Status: 200, Client: netip.MustParseAddr("2001:db8::1"),
				Method: message.MethodOther, MethodName: []byte("X\"Y"), Host: []byte("h\x00"),
				Path: []byte("/\"\\\n\r\t\x1b[31m\x7f\xff\xc3\xa9"), Query: []byte("q=\xe2\x82"),
				UserAgent: []byte(`" 200 0 "forged`), Referer: []byte("\n{}"),
			}
		},
		`{"time":"2026-11-29T22:32:50.123456Z","duration_ms":12.000,"listener":"","client":"2001:db8::1","method":"X\"Y","scheme":"http",` +
			`"host":"h\u0000","path":"/\"\\\u000a\u000d\u0009\u001b[31m\u007f` + "\uFFFD\u00e9" + `","query":"q=` + "\uFFFD\uFFFD" + `","protocol":"HTTP/2",` +
			`"referer":"\u000a{}","user_agent":"\" 200 0 \"forged","status":200,"bytes_in":0,"bytes_out":0,"snapshot":"v1"}` + "\n",
		`2001:db8::1 - - [29/Nov/2026:22:32:50 +0000] "X\x22Y /\x22\x5C\x0A\x0D\x09\x1B[31m\x7F\xFF\xC3\xA9?q=\xE2\x82 HTTP/2" 200 0 "\x0A{}" "\x22 200 0 \x22forged"` + "\n",
	}} {
		var x Exchange
		get(&x, s)
		v.Begin(&x, []byte(testDropped), nil)
		active := x.active
		c.change(&x)
		gotJSON, gotText := logged(v, &x)
		if gotJSON != c.wantJSON {
			t.Errorf("%s:\ngot  %swant %s", c.name, gotJSON, c.wantJSON)
		}
		if gotText != c.wantText {
			t.Errorf("%s:\ngot  %swant %s", c.name, gotText, c.wantText)
		}
		x.active = active
		v.Finish(&x)
	}
}

// Whatever the bytes, a line is one line, valid JSON and bounded.
func FuzzLogLine(f *testing.F) {
	f.Add([]byte("/"), []byte("a=b"), []byte("agent"))
	f.Add([]byte("\xff\xfe\x00\n\"\\"), []byte("\xf0\x9f\x92"), []byte("\u2028\u2029"))
	f.Add([]byte(strings.Repeat("\x01", 9000)), []byte(strings.Repeat("\u00e9", 8000)), []byte(strings.Repeat("\x80", 2000)))
	r := newRecorder(f, Options{})
	s := testSnapshot("v1", []string{"users"}, []string{"backend"})
	v := r.View(s)
	f.Fuzz(func(t *testing.T, path, query, agent []byte) {
		var x Exchange
		get(&x, s)
		x.Path, x.Query, x.UserAgent, x.Host, x.MethodName, x.Referer = path, query, agent, agent, agent, agent
		object, text := logged(v, &x)
		var fields map[string]any
		if err := json.Unmarshal([]byte(object), &fields); err != nil || !utf8.ValidString(object) {
			t.Fatalf("%v: %q", err, object)
		}
		if strings.Count(object, "\n") != 1 || strings.Count(text, "\n") != 1 {
			t.Fatalf("not one line: %q, %q", object, text)
		}
		if strings.Count(text, `"`) != 6 {
			t.Fatalf("a quote got through: %q", text)
		}
		if len(object) > lineBound || len(text) > lineBound {
			t.Fatalf("lines of %d and %d bytes", len(object), len(text))
		}
	})
}

// lineBound is what a line cannot exceed: each byte may become six.
const lineBound = 6*(2*lineTarget+10*lineText) + 1024
