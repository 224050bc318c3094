package ctl

import "testing"

func TestCheckAddress(t *testing.T) {
	for address, good := range map[string]bool{
		"127.0.0.1:7070":   true,
		"[::1]:7070":       true,
		"proxy.internal:7": true,
		":7070":            true,
		"unix:/run/h.sock": true,
		"unix:":            false,
		"127.0.0.1":        false,
		"127.0.0.1:":       false,
		"http://a:1":       false,
		"":                 false,
	} {
		if err := checkAddress(address); (err == nil) != good {
			t.Errorf("checkAddress(%q) = %v, want good: %v", address, err, good)
		}
	}
}

func TestLocal(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "unix:/x": true,
		"10.0.0.1:1": false, "localhost.example.com:1": false, "example.com:1": false, ":1": false,
	} {
		if got := local(address); got != want {
			t.Errorf("local(%q) = %v, want %v", address, got, want)
		}
	}
}
