package upstream

import "testing"

// fail ends n attempts with o.
func fail(e *Endpoint, n int, o Outcome) {
	for range n {
		e.Begin()
		e.Done(o, 1e6)
	}
}

func TestEjection(t *testing.T) {
	seen := make(events, 10)
	c := only(t, Options{Events: seen.add}, cluster("c", "a:1", "b:1"))
	a, b := c.endpoints[0], c.endpoints[1]
	fail(a, 4, Timeout)
	fail(a, 1, Success)
	fail(a, 4, Reset)
	if n := picks(t, c, 10); n["a:1"] != 5 {
		t.Fatalf("ejected too early: %v", n)
	}
	fail(a, 1, ServerError)
	e := seen.next(t, Ejected)
	if e.Cause != "5 requests failed in a row, the last: server error" || e.From != StateUnknown || e.To != StateEjected {
		t.Errorf("event %+v", e)
	}
	if n := picks(t, c, 10); n["b:1"] != 10 {
		t.Fatalf("not ejected: %v", n)
	}
	// The last one stays, whatever it does.
	fail(b, 50, ServerError)
	if n := picks(t, c, 10); n["b:1"] != 10 {
		t.Fatalf("the last one went: %v", n)
	}
}
