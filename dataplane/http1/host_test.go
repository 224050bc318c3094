package http1

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// An IPv6 address is what net/netip takes for one, without its zones.
func TestIPv6AgreesWithNetip(t *testing.T) {
	pieces := []string{"0", "1", "ffff", "ABCD", "12345", "g", ":", ":", ":", ":", "::", ".", "1.2.3.4", "255.0.0.256", "01", "2:3:4:5", "1:2:3:4:5:6"}
	r := rand.New(rand.NewPCG(3, 4))
	taken := 0
	for range 200_000 {
		var b strings.Builder
		for range r.IntN(9) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		addr, err := netip.ParseAddr(b.String())
		want := err == nil && addr.Is6()
		if got := isIPv6([]byte(b.String())); got != want {
			t.Fatalf("isIPv6(%q) = %v", b.String(), got)
		}
		if want {
			taken++
		}
	}
	if taken < 1000 {
		t.Errorf("only %d addresses among the strings", taken)
	}
}
