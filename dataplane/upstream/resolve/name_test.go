package resolve

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// story is a name to which a script happens.
type story struct {
	name    Name
	refresh time.Duration
}

func TestName(t *testing.T) {
	f, err := os.Open("testdata/name.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var s story
	got, asked := "", false
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case line == "" || line[0] == '#':
		case line[0] != ' ':
			got, asked = s.do(t, line), true
		case !asked || strings.TrimSpace(line) != got:
			t.Fatalf("name.txt:%d: got %q, want %q", n, got, strings.TrimSpace(line))
		}
	}
}

func (s *story) do(t *testing.T, line string) string {
	words := strings.Fields(line)
	switch words[0] {
	case "new":
		*s = story{refresh: span(t, words[2])}
		if s.name.State().Asked || s.name.Wait(1) != 0 {
			return "not new"
		}
		return "unknown, due"
	case "restore":
		s.name.Restore(addresses(words[1]))
		return s.tell(Change{}, false)
	case "hasten":
		s.name.Hasten(int64(span(t, words[1])), span(t, words[2]))
		return s.tell(Change{}, false)
	}
	ill := s.name.trouble != ""
	now, rest, _ := strings.Cut(line, " ")
	four, six, _ := strings.Cut(rest, "|")
	a := Answers{answer(t, strings.Fields(four)), answer(t, strings.Fields(six))}
	return s.tell(s.name.Observe(int64(span(t, now)), a, s.refresh, 0), ill)
}

func span(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func addresses(text string) (list []netip.Addr) {
	for a := range strings.SplitSeq(text, ",") {
		list = append(list, netip.MustParseAddr(a))
	}
	return list
}

func answer(t *testing.T, words []string) Answer {
	switch words[0] {
	case "fails":
		return Answer{Err: errors.New(words[1])}
	case "none":
		return Answer{TTL: span(t, words[1])}
	case "missing":
		return Answer{TTL: span(t, words[1]), Missing: true}
	}
	return Answer{Addresses: addresses(words[0]), TTL: span(t, words[1])}
}

// tell is what is known after a change.
func (s *story) tell(c Change, ill bool) string {
	state := s.name.State()
	text := "nothing"
	if len(state.Addresses) > 0 {
		text = strings.Trim(fmt.Sprint(state.Addresses), "[]")
	}
	if !state.Asked {
		return text + ", not asked yet"
	}
	text += fmt.Sprintf(", next at %v", time.Duration(state.Next))
	if c.Addresses {
		text += ", new addresses"
	}
	switch {
	case c.Health && state.Trouble == "":
		text += ", works again"
	case c.Health:
		text += ", trouble: " + state.Trouble
	case state.Trouble != "" && ill:
		text += ", still trouble: " + state.Trouble
	}
	return text
}

// Whatever is answered: once there was an address there is always one, what is
// in use was in an answer, and the next look-up is neither at once nor later than
// it may be.
func TestNameProperties(t *testing.T) {
	pool := addresses("10.0.0.1,10.0.0.2,10.0.0.3,2001:db8::1,2001:db8::2")
	rapid.Check(t, func(t *rapid.T) {
		var n Name
		seen := map[netip.Addr]bool{}
		refresh := time.Duration(rapid.Int64Range(int64(100*time.Millisecond), int64(time.Hour)).Draw(t, "refresh"))
		now := int64(0)
		for range rapid.IntRange(1, 30).Draw(t, "look-ups") {
			var a Answers
			for i := range a {
				a[i] = drawAnswer(t, pool, i)
				for _, address := range a[i].Addresses {
					seen[address] = true
				}
			}
			had := len(n.State().Addresses)
			n.Observe(now, a, refresh, rapid.Float64Range(0, 0.999).Draw(t, "jitter"))
			s := n.State()
			if had > 0 && len(s.Addresses) == 0 {
				t.Fatalf("%+v took all addresses away", a)
			}
			for _, address := range s.Addresses {
				if !seen[address] {
					t.Fatalf("%v was in no answer", address)
				}
			}
			wait := n.Wait(now)
			if wait < min(refresh, shortest)*9/10-1 || wait > max(refresh, longestPause) {
				t.Fatalf("next after %v, with a refresh of %v", wait, refresh)
			}
			now += int64(wait)
		}
	})
}

func drawAnswer(t *rapid.T, pool []netip.Addr, family int) Answer {
	a := Answer{TTL: time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "TTL"))}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		a.Err = errors.New("no answer")
	case 1:
		a.Missing = true
	default:
		a.Addresses = slices.DeleteFunc(rapid.SliceOf(rapid.SampledFrom(pool)).Draw(t, "addresses"), func(a netip.Addr) bool {
			return familyOf(a) != family
		})
	}
	return a
}

// A name with very many addresses uses as many as it may, the same ones each
// time, and says so.
func TestNameIsBounded(t *testing.T) {
	var many []netip.Addr
	for i := range 2 * MaxAddresses {
		many = append(many, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
	}
	var n Name
	n.Observe(0, Answers{{Addresses: many}, {}}, time.Second, 0)
	first := n.State()
	slices.Reverse(many)
	if c := n.Observe(1, Answers{{Addresses: many}, {}}, time.Second, 0); c.Addresses {
		t.Error("the order of the records made a difference")
	}
	if len(first.Addresses) != MaxAddresses || first.Note != "it has 512 addresses, of which 256 are used" {
		t.Errorf("%d addresses, note %q", len(first.Addresses), first.Note)
	}
}
