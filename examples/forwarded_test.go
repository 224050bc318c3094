package examples_test

import "testing"

func TestForwarded(t *testing.T) {
	need(t, "curl")
	follow(t, "forwarded")
}
