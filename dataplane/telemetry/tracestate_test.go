package telemetry

import (
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// The rules are of W3C Trace Context Level 2, section 3.3.
func TestValidTracestate(t *testing.T) {
	members := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("k%d=v", i))
		}
		return strings.Join(all, ",")
	}
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"none", "", true},
		{"one", "foo=1", true},
		{"several", "foo=1,bar=2", true},
		{"white space around members", "foo=1 \t , \t bar=2, \t baz=3", true},
		{"empty members", ",foo=1,,bar=2, ,", true},
		{"only empty members", " , ,", true},
		{"a key twice", "foo=1,foo=2", true},
		{"all that a key may hold", "abcdefghijklmnopqrstuvwxyz0123456789_-*/=1", true},
		{"all that a value may hold", "foo=!\"#$%&'()*+-./0123456789:;<>?@ABCXYZ[\\]^_`abcxyz{|}~", true},
		{"space inside a value", "foo=a b", true},
		{"tenant and system", "fw529a3039@dt=FfIAAhR", true},
		{"key that begins with a digit", "0foo=1", true},
		{"tenant that begins with a digit", "0foo@bar=1", true},
		{"32 members", members(32), true},
		{"32 members and empty ones", members(32) + ",,", true},
		{"33 members", members(33), false},
		{"longest key", strings.Repeat("z", 256) + "=1", true},
		{"key too long", strings.Repeat("z", 257) + "=1", false},
		{"longest tenant and system", strings.Repeat("t", 241) + "@" + strings.Repeat("v", 14) + "=1", true},
		{"tenant too long", strings.Repeat("t", 242) + "@v=1", false},
		{"system too long", "t@" + strings.Repeat("v", 15) + "=1", false},
		{"longest value", "foo=" + strings.Repeat("v", 256), true},
		{"value too long", "foo=" + strings.Repeat("v", 257), false},
		{"no =", "foo", false},
		{"= twice", "foo=bar=baz", false},
		{"empty value", "foo=,bar=3", false},
		{"empty key", "=1", false},
		{"space before =", "foo =1", false},
		{"upper case", "FOO=1", false},
		{"dot in a key", "foo.bar=1", false},
		{"no system", "foo@=1", false},
		{"no tenant", "@foo=1", false},
		{"@ twice", "foo@@bar=1", false},
		{"two systems", "foo@bar@baz=1", false},
		{"system that begins with a digit", "foo@0bar=1", false},
		{"key that begins with _", "_foo=1", false},
		{"control byte", "foo=a\x01b", false},
		{"not ASCII", "foo=\u00e9", false},
		{"one bad member among good ones", "foo=1,bad,bar=2", false},
	} {
		if got := validTracestate([]byte(c.value)); got != c.ok {
			t.Errorf("%s: %q: %t", c.name, c.value, got)
		}
	}
}

// What OpenTelemetry does not take is not in spans; the rest is.
func TestSpanState(t *testing.T) {
	for sent, want := range map[string]string{
		"": "", "a=1,b=2": "a=1,b=2", "a=1 ,\tb=2": "a=1,b=2", ",a=1,,b=2,": "a=1,b=2",
		"a=1,a=2": "a=1", "a=1,b=2,a=3,c=4": "a=1,b=2,c=4", "0a=1,b=2": "b=2", "0a@b=1": "0a@b=1", "0a=1": "",
	} {
		if got := spanState(sent).String(); got != want {
			t.Errorf("%q: %q, want %q", sent, got, want)
		}
	}
}

// FuzzTracestate holds that what OpenTelemetry takes, we take, and the reverse,
// but for keys that are given twice and those that Level 2 added.
func FuzzTracestate(f *testing.F) {
	for _, s := range []string{"", "foo=1,bar=2", " foo=1 ,\tbar=2,", "a@b=c", "0a=1", "a=b=c", "a=\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ours := validTracestate([]byte(s))
		state, err := trace.ParseTraceState(s)
		if err == nil && !ours {
			t.Errorf("%q: OpenTelemetry takes it: %s", s, state)
		}
		if ours && err != nil && !strings.Contains(err.Error(), "duplicate") && !strings.ContainsAny(s, "0123456789 \t") {
			t.Errorf("%q: OpenTelemetry does not take it: %v", s, err)
		}
	})
}
