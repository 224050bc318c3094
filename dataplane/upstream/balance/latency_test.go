package balance

import (
	"bufio"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLatency(t *testing.T) {
	f, err := os.Open("testdata/latency.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var l Latency
	got := ""
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case line == "" || line[0] == '#':
		case line[0] != ' ':
			got = l.do(strings.Fields(line))
		case strings.TrimSpace(line) != got:
			t.Fatalf("%s:%d: got %q, want %q", f.Name(), n, got, strings.TrimSpace(line))
		}
	}
}

// do runs a line of the script: new; ok, fail NOW LATENCY; cost NOW IN-FLIGHT
// [WEIGHT].
func (l *Latency) do(words []string) string {
	if words[0] == "new" {
		*l = 0
		return "0s"
	}
	now, _ := time.ParseDuration(words[1])
	at := int64(now) + 1
	switch words[0] {
	case "cost":
		inFlight, _ := strconv.ParseInt(words[2], 10, 64)
		weight := 1.0
		if len(words) > 3 {
			weight, _ = strconv.ParseFloat(words[3], 64)
		}
		return shown(l.Cost(at, inFlight, 1/weight))
	case "ok":
		took, _ := time.ParseDuration(words[2])
		*l = l.Succeeded(at, int64(took))
	case "fail":
		took, _ := time.ParseDuration(words[2])
		*l = l.Failed(at, int64(took))
	}
	return shown(l.At(at))
}

func shown(ns float64) string {
	d := time.Duration(ns)
	if d > time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func TestHalved(t *testing.T) {
	if exact := math.Log2E * (1 << tickBits) / decay * (1 << halfBits); math.Abs(halving-exact) > 0.5 {
		t.Errorf("a tick is %v halves, not %v", halving, exact)
	}
	last := 2.0
	for n := uint64(0); n <= 60<<10; n++ {
		got, want := halved(n<<(halfBits-10)), math.Exp2(-float64(n)/1024)
		if math.Abs(got-want) > 0.0002*want || got >= last {
			t.Fatalf("after %v halves %v is left, want %v (before it %v)", float64(n)/1024, got, want, last)
		}
		last = got
	}
	if halved(0) != 1 || halved(1<<halfBits) != 0.5 || halved(1000<<halfBits) == 0 || halved(math.MaxInt32*halving) != 0 {
		t.Error("powers of two are not exact")
	}
}

// The average lies between what was seen and nothing, falls while nothing is
// seen, and no order of times makes it anything else.
func TestLatencyIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Latency
		now, most := int64(1), 0.0
		for range rapid.IntRange(1, 50).Draw(t, "answers") {
			now += rapid.Int64Range(-1e9, 60e9).Draw(t, "time")
			took := rapid.Int64Range(-5, 20e9).Draw(t, "latency")
			if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
				l = l.Failed(now, took)
				most = MaxLatency
			} else {
				l = l.Succeeded(now, took)
			}
			most = max(most, min(float64(took), MaxLatency))
			if a := l.At(now); a < 0 || a > most*1.0001+1 || a != a {
				t.Fatalf("average %v, the longest was %v", a, most)
			}
			if later := l.At(now + 5e9); later > l.At(now) {
				t.Fatalf("grew from %v to %v while nothing was seen", l.At(now), later)
			}
		}
	})
}
