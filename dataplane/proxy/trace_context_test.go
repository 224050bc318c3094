package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	someTrace  = "12345678901234567890123456789012"
	someParent = "1234567890123456"
	someMember = "00-" + someTrace + "-" + someParent
)

// A traced is a request with fields of W3C Trace Context, and what must become of
// them where they are looked at.
type traced struct {
	name    string
	fields  []string // names and values in turn
	goesOn  bool     // the trace does; else another begins
	flags   string   // "": either
	state   string   // what is left of tracestate, its lines joined with "|"
	onlyOne bool     // cannot be said on HTTP/2
}

func parent(value string) []string { return []string{"traceparent", value} }

// members are n members of a tracestate.
func stateMembers(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = "bar" + strings.Repeat("x", i+1) + "=1"
	}
	return strings.Join(all, ",")
}

// withState is a good parent with lines of tracestate.
func withState(lines ...string) []string {
	fields := parent(someMember + "-00")
	for _, line := range lines {
		fields = append(fields, "tracestate", line)
	}
	return fields
}

var traceCases = []traced{
	{name: "neither"},
	{name: "parent alone", fields: parent(someMember + "-01"), goesOn: true, flags: "01"},
	{name: "not sampled", fields: parent(someMember + "-00"), goesOn: true, flags: "00"},
	{name: "unknown flags", fields: parent(someMember + "-fc"), goesOn: true, flags: "00"},
	{name: "random", fields: parent(someMember + "-03"), goesOn: true, flags: "03"},
	{name: "two parents", fields: slices.Concat(parent("00-"+strings.Repeat("1", 32)+"-"+someParent+"-01"), parent(someMember+"-01"))},
	{name: "two parents that are equal", fields: slices.Concat(parent(someMember+"-01"), parent(someMember+"-01"))},
	{name: "another name", fields: []string{"trace-parent", someMember + "-01"}},
	{name: "a dot in the name", fields: []string{"trace.parent", someMember + "-01"}},
	{name: "name in another case", fields: []string{"TraceParent", someMember + "-01"}, goesOn: true, onlyOne: true},
	{name: "white space around", fields: []string{"traceparent", " \t" + someMember + "-01 \t"}, goesOn: true, onlyOne: true},
	{name: "empty", fields: parent("")},
	{name: "version 00 with a dot behind", fields: parent(someMember + "-01.")},
	{name: "version 00 with more", fields: parent(someMember + "-01-what-the-future-will-be-like")},
	{name: "version cc", fields: parent("cc" + someMember[2:] + "-01"), goesOn: true, flags: "01"},
	{name: "version cc with more", fields: parent("cc" + someMember[2:] + "-01-what-the-future-will-be-like"), goesOn: true, flags: "01"},
	{name: "version cc with a dot behind", fields: parent("cc" + someMember[2:] + "-01.what-the-future-will-be-like")},
	{name: "version ff", fields: parent("ff" + someMember[2:] + "-01")},
	{name: "version that is no number", fields: parent(".0" + someMember[2:] + "-01")},
	{name: "version that ends in a dot", fields: parent("0." + someMember[2:] + "-01")},
	{name: "version too long", fields: parent("0" + someMember + "-01")},
	{name: "version far too long", fields: parent("00" + someMember + "-01")},
	{name: "version too short", fields: parent(someMember[1:] + "-01")},
	{name: "trace ID all zero", fields: parent("00-" + strings.Repeat("0", 32) + "-" + someParent + "-01")},
	{name: "trace ID with a dot", fields: parent("00-." + someTrace[1:] + "-" + someParent + "-01")},
	{name: "trace ID that ends in a dot", fields: parent("00-" + someTrace[1:] + ".-" + someParent + "-01")},
	{name: "trace ID in upper case", fields: parent("00-ABCDEF" + someTrace[6:] + "-" + someParent + "-01")},
	{name: "trace ID too long", fields: parent("00-" + someTrace + "3-" + someParent + "-01")},
	{name: "trace ID too short", fields: parent("00-" + someTrace[1:] + "-" + someParent + "-01")},
	{name: "parent ID all zero", fields: parent("00-" + someTrace + "-" + strings.Repeat("0", 16) + "-01")},
	{name: "parent ID with a dot", fields: parent("00-" + someTrace + "-." + someParent[1:] + "-01")},
	{name: "parent ID in upper case", fields: parent("00-" + someTrace + "-ABC" + someParent[3:] + "-01")},
	{name: "parent ID too long", fields: parent("00-" + someTrace + "-" + someParent + "7-01")},
	{name: "parent ID too short", fields: parent("00-" + someTrace + "-" + someParent[1:] + "-01")},
	{name: "flags with a dot", fields: parent(someMember + "-.0")},
	{name: "flags that end in a dot", fields: parent(someMember + "-0.")},
	{name: "flags in upper case", fields: parent(someMember + "-0B")},
	{name: "flags too long", fields: parent(someMember + "-001")},
	{name: "flags too short", fields: parent(someMember + "-1")},

	{name: "state without a parent", fields: []string{"tracestate", "foo=1"}},
	{name: "two states without a parent", fields: []string{"tracestate", "foo=1", "tracestate", "bar=2"}},
	{name: "state of a bad parent", fields: append(parent(someMember), "tracestate", "foo=1")},
	{name: "state of two parents", fields: append(slices.Concat(parent(someMember+"-01"), parent(someMember+"-01")), "tracestate", "foo=1")},
	{name: "state", fields: withState("foo=1,bar=2"), goesOn: true, flags: "00", state: "foo=1,bar=2"},
	{name: "state under another name", fields: append(parent(someMember+"-00"), "trace-state", "foo=1"), goesOn: true},
	{name: "name of the state in another case", fields: append(parent(someMember+"-00"), "TraceState", "foo=1"), goesOn: true, state: "foo=1", onlyOne: true},
	{name: "empty state", fields: withState(""), goesOn: true, state: ""},
	{name: "empty line behind another", fields: withState("foo=1", ""), goesOn: true, state: "foo=1|"},
	{name: "empty line before another", fields: withState("", "foo=1"), goesOn: true, state: "|foo=1"},
	{name: "several lines", fields: withState("foo=1,bar=2", "rojo=1,congo=2", "baz=3"), goesOn: true, state: "foo=1,bar=2|rojo=1,congo=2|baz=3"},
	{name: "a key twice", fields: withState("foo=1,foo=2"), goesOn: true, state: "foo=1,foo=2"},
	{name: "a key twice in lines", fields: withState("foo=1", "foo=2"), goesOn: true, state: "foo=1|foo=2"},
	{name: "all that may be", fields: withState("0123456789_-*/=1", "abc_-*/@xyz=!~"), goesOn: true, state: "0123456789_-*/=1|abc_-*/@xyz=!~"},
	{name: "white space between members", fields: withState("foo=1 \t , \t bar=2, \t baz=3"), goesOn: true, state: "foo=1 \t , \t bar=2, \t baz=3"},
	{name: "32 members", fields: withState(stateMembers(32)), goesOn: true, state: stateMembers(32)},
	{name: "33 members", fields: withState(stateMembers(33)), goesOn: true},
	{name: "33 members in lines", fields: withState(stateMembers(32), "foo=1"), goesOn: true},
	{name: "space in a key", fields: withState("foo =1"), goesOn: true},
	{name: "key in upper case", fields: withState("FOO=1"), goesOn: true},
	{name: "dot in a key", fields: withState("foo.bar=1"), goesOn: true},
	{name: "no system", fields: withState("foo@=1,bar=2"), goesOn: true},
	{name: "no tenant", fields: withState("@foo=1,bar=2"), goesOn: true},
	{name: "@ twice", fields: withState("foo@@bar=1,bar=2"), goesOn: true},
	{name: "longest key", fields: withState(strings.Repeat("z", 256) + "=1"), goesOn: true, state: strings.Repeat("z", 256) + "=1"},
	{name: "key too long", fields: withState(strings.Repeat("z", 257) + "=1"), goesOn: true},
	{name: "value with =", fields: withState("foo=bar=baz"), goesOn: true},
	{name: "no value", fields: withState("foo=,bar=3"), goesOn: true},
	{name: "a bad line behind a good one", fields: withState("foo=1", "bar"), goesOn: true},
}

var goodParent = regexp.MustCompile("^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$")

// TestTraceContext sends the kinds of the W3C's own suite through the data plane,
// from clients of HTTP/1 and HTTP/2, with tracing on and its spans made, on
// without anybody to take them, and off, when everything passes untouched.
func TestTraceContext(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer collector.Close()
	for _, mode := range []string{"off", "on", "on with spans"} {
		if mode == "on with spans" {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
		}
		for _, w := range byteWires {
			t.Run(mode+"/"+w.client+" to "+w.upstream, func(t *testing.T) { traceThrough(t, w, mode) })
		}
	}
}

func traceThrough(t *testing.T, w wire, mode string) {
	seen := make(chan http.Header, 1)
	config := singleOver(w.upstream, serveOver(t, w.upstream, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header })))
	if mode != "off" {
		config += "telemetry: {tracing: {sampleRatio: 0.5, trustIncoming: true}}\n"
	}
	g := start(t, config)
	var f *framer
	if w.client == "HTTP/2" {
		f = g.frames()
	}
	for _, c := range traceCases {
		c.fields = append(slices.Clip(c.fields), "baggage", "userId=alice,serverNode=DF%2028;p=1")
		switch {
		case f == nil:
			lines := ""
			for i := 0; i < len(c.fields); i += 2 {
				lines += c.fields[i] + ": " + c.fields[i+1] + "\r\n"
			}
			client := g.dial()
			client.send("GET / HTTP/1.1\r\nHost: h\r\n" + lines + "\r\n")
			client.head()
			client.close()
		case c.onlyOne:
			continue
		default:
			if r := f.await(f.open(true, "GET", "/", c.fields...)); r.status != "200" {
				t.Fatalf("%s: %+v", c.name, r)
			}
		}
		checkTrace(t, &c, mode, <-seen)
	}
}

func checkTrace(t *testing.T, c *traced, mode string, got http.Header) {
	t.Helper()
	if b := got.Values("Baggage"); len(b) != 1 || b[0] != "userId=alice,serverNode=DF%2028;p=1" {
		t.Errorf("%s: baggage %q", c.name, b)
	}
	if mode == "off" {
		want := http.Header{}
		for i := 0; i < len(c.fields); i += 2 {
			want.Add(c.fields[i], strings.Trim(c.fields[i+1], " \t"))
		}
		for _, name := range []string{"Traceparent", "Tracestate"} {
			if !slices.Equal(got[name], want[name]) {
				t.Errorf("%s: %s %q, want %q", c.name, name, got[name], want[name])
			}
		}
		return
	}
	parents := got.Values("Traceparent")
	if len(parents) != 1 || !goodParent.MatchString(parents[0]) {
		t.Errorf("%s: parents %q", c.name, parents)
		return
	}
	part := goodParent.FindStringSubmatch(parents[0])
	if goesOn := part[1] == someTrace; goesOn != c.goesOn || c.flags != "" && part[3] != c.flags {
		t.Errorf("%s: parent %s", c.name, parents[0])
	}
	if part[2] == someParent {
		t.Errorf("%s: the client's span is still the parent: %s", c.name, parents[0])
	}
	if state := strings.Join(got.Values("Tracestate"), "|"); state != c.state {
		t.Errorf("%s: state %q, want %q", c.name, state, c.state)
	}
}
