package route

import (
	"net/url"
	"testing"

	"pgregory.net/rapid"
)

func TestLookupQuery(t *testing.T) {
	tests := []struct {
		query, name, want string
		ok                bool
	}{
		{"a=1", "a", "1", true},
		{"a", "a", "", true},
		{"a=", "a", "", true},
		{"=1", "", "1", true},
		{"&&a=1", "a", "1", true},
		{"a=1&a=2", "a", "1", true},
		{"ab=1", "a", "", false},
		{"a=b=c", "a", "b=c", true},
		{"%61=1", "a", "1", true},
		{"a%2=1", "a%2", "1", true},
		{"a%zz=1", "a%zz", "1", true},
		{"a;b=1", "b", "", false},
		{"", "a", "", false},
		{"", "", "", false},
	}
	for _, test := range tests {
		got, ok := lookupQuery([]byte(test.query), test.name)
		if string(got) != test.want || ok != test.ok {
			t.Errorf("%q of %q: %q %v", test.name, test.query, got, ok)
		}
	}
}

// TestDecode agrees with net/url on what net/url accepts, and comparing agrees
// with decoding on everything.
func TestDecode(t *testing.T) {
	text := rapid.StringOfN(rapid.SampledFrom([]rune("ab%+2fF1é")), 0, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		raw, other := text.Draw(t, "raw"), text.Draw(t, "other")
		plain := string(decode([]byte(raw)))
		if want, err := url.QueryUnescape(raw); err == nil && plain != want {
			t.Fatalf("%q: %q, want %q", raw, plain, want)
		}
		for _, want := range []string{plain, other, plain + "a", raw} {
			if equalDecoded([]byte(raw), want) != (plain == want) {
				t.Fatalf("%q is %q: compared with %q", raw, plain, want)
			}
		}
		if !encoded([]byte(raw)) && plain != raw {
			t.Fatalf("%q is %q without escapes", raw, plain)
		}
	})
}
