package route

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLiteralIsSound: no path that matches an expression lacks its literal, so
// that looking at the literal first changes nothing.
func TestLiteralIsSound(t *testing.T) {
	pieces := []string{"^", "/", "a", "b", "(a|b)", "(?i)", "(?m)", "|", "*", "?", "{0}", "{2}", "$", ".", `\*`, "\n", "\uFFFD", "(?:", ")", "é", `\Q`}
	text := rapid.SliceOfN(rapid.SampledFrom([]string{"/", "a", "A", "b", "*", "\n", "\xff", "é", "\uFFFD"}), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		expr := "^/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 6).Draw(t, "expr"), "")
		re, err := compileRegex(expr)
		if err != nil {
			return
		}
		for range 20 {
			path := []byte(strings.Join(text.Draw(t, "path"), ""))
			if re.Match(path) && !bytes.HasPrefix(path, re.literal) {
				t.Fatalf("%q matches %q, without the literal %q", path, expr, re.literal)
			}
		}
	})
}

// TestNewTakesAnything: whatever is written, there is a table or there are
// faults, and a lookup in the table comes to an end.
func TestNewTakesAnything(t *testing.T) {
	text := rapid.StringOfN(rapid.SampledFrom([]rune("/.*[]:%a1A ()é\x00")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		r := Route{Hosts: []string{text.Draw(t, "host")}}
		m := Match{Methods: []string{text.Draw(t, "method")}}
		m.Path = Path{PathKind(rapid.IntRange(0, 5).Draw(t, "kind")), text.Draw(t, "path")}
		m.Headers = []Value{{Name: text.Draw(t, "name"), Regex: text.Draw(t, "regex")}}
		r.Matches = []Match{m}
		if rapid.Bool().Draw(t, "sound") {
			r.Hosts, m.Methods, m.Headers = nil, nil, nil
			r.Matches = []Match{m}
		}
		table, faults := New([]Route{r}, nil)
		if (table == nil) != (len(faults) > 0) {
			t.Fatalf("table %v, faults %v", table, faults)
		}
		s := sample{host: text.Draw(t, "asked"), method: "GET", path: text.Draw(t, "at"), query: text.Draw(t, "query")}
		req := s.request()
		got, ok := table.Match(req, []byte(s.path), s.source)
		if e := table.Explain(req, []byte(s.path), s.source); e.Found != ok || e.Winner != got {
			t.Fatalf("matched %+v, explained %+v", got, e)
		}
	})
}
