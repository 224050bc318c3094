package ctl

import (
	"testing"
	"time"
)

func TestBackoffBounds(t *testing.T) {
	var b backoff
	want := []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000}
	for i, bound := range want {
		bound *= time.Millisecond
		if got := b.bound(); got != bound {
			t.Errorf("bound %d = %v, want %v", i, got, bound)
		}
		if wait := b.next(); wait <= 0 || wait > bound {
			t.Errorf("wait %d = %v, want within (0, %v]", i, wait, bound)
		}
	}
	b.reset()
	if got := b.bound(); got != firstBackoff {
		t.Errorf("after a reset the bound is %v, want %v", got, firstBackoff)
	}
}
