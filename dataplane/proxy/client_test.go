package proxy

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// TestParseIPv4 compares with net/netip over what looks much like an address.
func TestParseIPv4(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[0-9]{0,4}(\.[0-9]{0,4}){2,4}[x:. ]?`).Draw(t, "text")
		got, ok := parseIPv4([]byte(text))
		want, err := netip.ParseAddr(text)
		if ok != (err == nil) || ok && got != want {
			t.Fatalf("%q: %v %t, want %v %v", text, got, ok, want, err)
		}
	})
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1", "[2001:db8::1]": "2001:db8::1",
		"[2001:db8::1]:443": "2001:db8::1", "2001:db8::1": "2001:db8::1", "::ffff:192.0.2.1": "192.0.2.1",
	} {
		if got, ok := parseAddr([]byte(text)); !ok || got.String() != want {
			t.Errorf("%q: %v %t, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "unknown", "_hidden", "192.0.2", "192.0.2.1:"} {
		if got, ok := parseAddr([]byte(text)); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}
