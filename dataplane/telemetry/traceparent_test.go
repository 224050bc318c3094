package telemetry

import (
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

const (
	testTrace   = "0af7651916cd43dd8448eb211c80319c"
	testParent  = "b7ad6b7169203331"
	testSampled = "00-" + testTrace + "-" + testParent + "-01"
	testDropped = "00-" + testTrace + "-" + testParent + "-00"
)

// The rules are of W3C Trace Context Level 2, sections 3.2.2 and 4.
func TestParseTraceparent(t *testing.T) {
	zeroTrace, zeroParent := strings.Repeat("0", 32), strings.Repeat("0", 16)
	for _, c := range []struct {
		name, value string
		ok          bool
		flags       byte
	}{
		{"sampled", testSampled, true, flagSampled},
		{"not sampled", testDropped, true, 0},
		{"random", "00-" + testTrace + "-" + testParent + "-03", true, flagSampled | flagRandom},
		{"unknown flags are ignored", "00-" + testTrace + "-" + testParent + "-fd", true, flagSampled},
		{"higher version, same length", "01-" + testTrace + "-" + testParent + "-01", true, flagSampled},
		{"higher version, longer", "cc-" + testTrace + "-" + testParent + "-01-what-comes", true, flagSampled},
		{"highest version", "fe-" + testTrace + "-" + testParent + "-00", true, 0},
		{"higher version, dash only", "01-" + testTrace + "-" + testParent + "-01-", true, flagSampled},
		{"higher version, no dash", "01-" + testTrace + "-" + testParent + "-01.x", false, 0},
		{"higher version, longer flags", "01-" + testTrace + "-" + testParent + "-011", false, 0},
		{"version ff", "ff-" + testTrace + "-" + testParent + "-01", false, 0},
		{"version 00, longer", testSampled + "-x", false, 0},
		{"version 00, dash", testSampled + "-", false, 0},
		{"version not hexadecimal", "0x-" + testTrace + "-" + testParent + "-01", false, 0},
		{"version upper case", "CC-" + testTrace + "-" + testParent + "-01", false, 0},
		{"trace ID upper case", "00-" + strings.ToUpper(testTrace) + "-" + testParent + "-01", false, 0},
		{"trace ID zero", "00-" + zeroTrace + "-" + testParent + "-01", false, 0},
		{"trace ID short", "00-" + testTrace[1:] + "-" + testParent + "-010", false, 0},
		{"parent upper case", "00-" + testTrace + "-" + strings.ToUpper(testParent) + "-01", false, 0},
		{"parent zero", "00-" + testTrace + "-" + zeroParent + "-01", false, 0},
		{"flags upper case", "00-" + testTrace + "-" + testParent + "-0B", false, 0},
		{"flags not hexadecimal", "00-" + testTrace + "-" + testParent + "-0g", false, 0},
		{"one digit of flags", testSampled[:54], false, 0},
		{"leading space", " " + testSampled[:54], false, 0},
		{"trailing space", testSampled + " ", false, 0},
		{"underscores", strings.ReplaceAll(testSampled, "-", "_"), false, 0},
		{"two values", testSampled + "," + testSampled, false, 0},
		{"not ASCII", "00-" + testTrace[:30] + "\u00e9-" + testParent + "-01", false, 0},
		{"empty", "", false, 0},
	} {
		p, ok := parseTraceparent([]byte(c.value))
		if ok != c.ok || ok && p.flags != c.flags {
			t.Errorf("%s: %q: got %v, flags %02x; want %v, %02x", c.name, c.value, ok, p.flags, c.ok, c.flags)
		}
		if ok && string(appendHex(nil, p.traceID[:]))+string(appendHex(nil, p.spanID[:])) != testTrace+testParent {
			t.Errorf("%s: wrong IDs", c.name)
		}
	}
}

// sendRules are what goes out, by what came in and what the snapshot says.
var sendRules = []struct {
	name, incoming string
	off, distrust  bool
	ratio          float64
	exporter       bool

	rewrite, keepState, sampled bool
	want                        string // regexp of the value
}{
	{name: "tracing off", incoming: testSampled, off: true, ratio: 1, exporter: true},
	{name: "trusted, sampled", incoming: testSampled, exporter: true,
		rewrite: true, keepState: true, sampled: true, want: "^00-" + testTrace + "-[0-9a-f]{16}-01$"},
	{name: "trusted, sampled, random", incoming: testSampled[:54] + "3", exporter: true,
		rewrite: true, keepState: true, sampled: true, want: "^00-" + testTrace + "-[0-9a-f]{16}-03$"},
	{name: "trusted, sampled, nobody records", incoming: testSampled,
		rewrite: true, keepState: true, sampled: true, want: "^00-" + testTrace + "-[0-9a-f]{16}-01$"},
	{name: "trusted, not sampled", incoming: testDropped, ratio: 1, exporter: true,
		rewrite: true, keepState: true, want: "^00-" + testTrace + "-[0-9a-f]{16}-00$"},
	{name: "trusted, unknown version, not sampled", incoming: "cc" + testDropped[2:] + "-more", ratio: 1, exporter: true,
		rewrite: true, keepState: true, want: "^00-" + testTrace + "-[0-9a-f]{16}-00$"},
	{name: "not trusted", incoming: testSampled, distrust: true, exporter: true,
		rewrite: true, want: "^00-[0-9a-f]{32}-[0-9a-f]{16}-00$"},
	{name: "not trusted, sampled here", incoming: testDropped, distrust: true, ratio: 1, exporter: true,
		rewrite: true, sampled: true, want: "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$"},
	{name: "none", ratio: 1, exporter: true,
		rewrite: true, sampled: true, want: "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$"},
	{name: "none, not sampled", exporter: true,
		rewrite: true, want: "^00-[0-9a-f]{32}-[0-9a-f]{16}-00$"},
	{name: "invalid", incoming: "00-" + testTrace, ratio: 1,
		rewrite: true, sampled: true, want: "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$"},
}

func TestWhatGoesOut(t *testing.T) {
	for _, c := range sendRules {
		r := newRecorder(t, Options{})
		if c.exporter {
			r.traceTo(sdktrace.NewSimpleSpanProcessor(tracetest.NewInMemoryExporter()), resource.Empty())
		}
		s := testSnapshot("v1", nil, nil)
		s.Telemetry.TracingOn, s.Telemetry.TrustIncoming, s.Telemetry.SampleRatio = !c.off, !c.distrust, c.ratio
		v := r.View(s)
		var x Exchange
		v.Begin(&x, []byte(c.incoming), []byte("a=1"))
		v.Attempt(&x)
		if got := x.Trace; got.Rewrite != c.rewrite || got.KeepState != c.keepState || got.Sampled != c.sampled {
			t.Errorf("%s: rewrite %v, state %v, sampled %v", c.name, got.Rewrite, got.KeepState, got.Sampled)
		}
		if c.rewrite {
			checkSent(t, c.name, c.want, &x)
		}
		v.Finish(&x)
	}
}

func checkSent(t *testing.T, name, want string, x *Exchange) {
	t.Helper()
	sent := string(x.AppendTraceparent(nil))
	if !regexp.MustCompile(want).MatchString(sent) {
		t.Errorf("%s: sent %s, want %s", name, sent, want)
	}
	if _, ok := parseTraceparent([]byte(sent)); !ok {
		t.Errorf("%s: sent an invalid value: %s", name, sent)
	}
	if strings.Contains(sent, testParent) {
		t.Errorf("%s: the client's span is still the parent: %s", name, sent)
	}
	if !x.Trace.KeepState && strings.Contains(sent, testTrace) {
		t.Errorf("%s: the client's trace goes on: %s", name, sent)
	}
}

// Each attempt has a span ID of its own, also where no span is made of it.
func TestEachAttemptHasItsParent(t *testing.T) {
	for _, incoming := range []string{"", testSampled, testDropped} {
		r := newRecorder(t, Options{})
		s := testSnapshot("v1", nil, nil)
		s.Telemetry.TracingOn, s.Telemetry.TrustIncoming = true, true
		v := r.View(s)
		var x Exchange
		v.Begin(&x, []byte(incoming), nil)
		seen := map[string]bool{incoming: true}
		for range 3 {
			v.Attempt(&x)
			seen[string(x.AppendTraceparent(nil))] = true
		}
		v.Finish(&x)
		if len(seen) != 4 {
			t.Errorf("%q: 3 attempts sent %d different values", incoming, len(seen)-1)
		}
	}
}

func TestSampleRatio(t *testing.T) {
	const n = 20000
	for _, ratio := range []float64{-1, 0, 0.1, 0.5, 1, 2} {
		sampled := 0
		for range n {
			var x Trace
			if x.begin(ratioBound(ratio)); x.Sampled {
				sampled++
			}
		}
		want := min(max(ratio, 0), 1)
		if got := float64(sampled) / n; got < want-0.02 || got > want+0.02 {
			t.Errorf("ratio %g: sampled %g", ratio, got)
		}
	}
}

// The decision is the one that the SDK makes for the same trace ID.
func TestSampleRatioAsTheSDK(t *testing.T) {
	sampler := sdktrace.TraceIDRatioBased(0.3)
	for range 1000 {
		var x Trace
		x.begin(ratioBound(0.3))
		decision := sampler.ShouldSample(sdktrace.SamplingParameters{TraceID: x.ID}).Decision
		if (decision == sdktrace.RecordAndSample) != x.Sampled {
			t.Fatalf("trace %x: the SDK decides otherwise", x.ID)
		}
	}
}
