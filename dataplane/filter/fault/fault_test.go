package fault

import (
	"testing"
	"time"
)

func TestFault(t *testing.T) {
	const second = time.Second
	for _, test := range []struct {
		config             Config
		none, delay, abort int // of 1,000
		both               int
	}{
		{Config{}, 1000, 0, 0, 0},
		{Config{DelayPercent: 100, AbortPercent: 100}, 1000, 0, 0, 0},
		{Config{DelayPercent: 100, Delay: second}, 0, 1000, 0, 0},
		{Config{AbortPercent: 100, AbortStatus: 503}, 0, 0, 1000, 0},
		{Config{DelayPercent: 100, Delay: second, AbortPercent: 100, AbortStatus: 429}, 0, 0, 0, 1000},
		{Config{DelayPercent: 1, Delay: second}, 990, 10, 0, 0},
		{Config{DelayPercent: 50, Delay: second, AbortPercent: 10, AbortStatus: 503}, 450, 450, 50, 50},
	} {
		f, got := New(test.config, 42), map[string]int{}
		for range 1000 {
			d := f.Decide()
			got[d.String()]++
			if d.Delay != 0 && d.Delay != second || d.Status != 0 && d.Status != test.config.AbortStatus {
				t.Fatalf("%+v: %+v", test.config, d)
			}
		}
		for what, want := range map[string]int{"": test.none, "delay": test.delay, "abort": test.abort, "delay, abort": test.both} {
			if off := got[what] - want; off < -4 || off > 4 {
				t.Errorf("%+v: %q happened to %d, want %d", test.config, what, got[what], want)
			}
		}
	}
}
