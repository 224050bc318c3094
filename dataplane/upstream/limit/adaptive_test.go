package limit

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAdaptive follows testdata/adaptive.txt word for word. A script says what a
// window has seen:
//
//	new LEAST
//	window TIME COUNT LATENCY PEAK [refused]
//
// and is answered with where the limit is. TIME is since the beginning.
func TestAdaptive(t *testing.T) {
	script, err := os.ReadFile("testdata/adaptive.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var a *Adaptive
	for line := range strings.Lines(string(script)) {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line)
		switch words := strings.Fields(line); {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "new":
			a = NewAdaptive(0, number(t, words[1]))
			fmt.Fprintf(&out, "  limit %d\n", a.Limit())
		case words[0] == "window":
			out.WriteString("  " + window(t, a, words[1:]) + "\n")
		default:
			t.Fatalf("no such command: %s", line)
		}
	}
	if diff := cmp.Diff(string(script), out.String()); diff != "" {
		if os.Getenv("REWRITE") != "" {
			if err := os.WriteFile("testdata/adaptive.txt", []byte(out.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Error(diff)
	}
}

func window(t *testing.T, a *Adaptive, words []string) string {
	w := Window{Peak: number(t, words[3]), Refused: len(words) > 4}
	for range number(t, words[1]) {
		w.Add(int64(span(t, words[2])))
	}
	closed, next := a.Observe(int64(span(t, words[0])), &w)
	phase := [...]string{"climbing", "holding", "trying"}[a.phase]
	if !closed {
		phase = "not yet"
	}
	return fmt.Sprintf("limit %d, baseline %v, %s; next at %v", a.Limit(), a.Baseline().Round(100*time.Microsecond), phase, time.Duration(next))
}

func number(t *testing.T, word string) int {
	t.Helper()
	n, err := strconv.Atoi(word)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func span(t *testing.T, word string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(word)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Log is exact at powers of two, never too high, and at most 0.09 too low.
func TestLog(t *testing.T) {
	near := func(latency int64) bool {
		latency = max(1, latency&math.MaxInt64)
		off := math.Log2(float64(latency)) - float64(Log(latency))/logUnit
		return -1e-9 < off && off < 0.088
	}
	if err := quick.Check(near, nil); err != nil {
		t.Error(err)
	}
	for power := range 62 {
		if got := Log(1 << power); got != int64(power)*logUnit {
			t.Errorf("Log(2^%d) = %d", power, got)
		}
	}
	if Log(0) != 0 || Log(-5) != 0 {
		t.Error("no latency has another logarithm than one nanosecond")
	}
}

func TestSamples(t *testing.T) {
	var s Samples
	if s.Mean() != 0 || !math.IsInf(s.Error(), 1) {
		t.Error("something is known of nothing")
	}
	for range 8 {
		s.Add(1 << 20)
		s.Add(1 << 24)
	}
	if s.Mean() != 22 || math.Abs(s.Error()-2/math.Sqrt(15)) > 1e-3 {
		t.Errorf("mean %v, error %v", s.Mean(), s.Error())
	}
}
