package main

import (
	"fmt"
	"strings"
)

// scenario is one kind of load. All are GETs of 100 B unless they say more.
type scenario struct {
	name        string
	what        string // for the report
	connections int    // at a time
	streams     int    // requests at a time on a connection, by HTTP/2; 0: HTTP/1.1, one after the other
	fresh       bool   // each request has a connection of its own
	tls         bool
	hybrid      bool    // the clients offer X25519MLKEM768 beside X25519
	call        bool    // requests are unary calls of gRPC
	path        string  // what the backend answers it with, answers says
	body        int     // bytes in a request's body; 0 is a GET
	share       float64 // requests arrive at this share of nginx's peak, whatever becomes of them; 0: each asks again when answered
	idle        bool    // measures memory instead
	log         bool    // the proxies write an access log
	traced      bool    // 1% of the requests are traced, by the data plane alone
	large       bool    // HAProxy with larger buffers is a peer too
	cores       int     // of each proxy; 0 is what -cores says
	goal        float64 // the ratio, or the kB a connection, that the project wants to keep below; 0: none
}

// size is the bytes in the body of an answer.
func (s *scenario) size() int {
	if s.call {
		return len(callMessage)
	}
	return answers[s.path]
}

// defaultScenario is measured if -only names none. A proxy that serves it is
// ready.
const defaultScenario = "get-100"

// scenarios are in the order of the report.
var scenarios = []scenario{
	{name: "get-100", what: "GET 100 B, 64 connections", connections: 64, path: "/b100", goal: 0.95},
	{name: "get-100-c512", what: "GET 100 B, 512 connections", connections: 512, path: "/b100", goal: 0.95},
	{name: "get-10k", what: "GET 10 KiB, 64 connections", connections: 64, path: "/b10k", goal: 1},
	{name: "get-1m", what: "GET 1 MiB, 16 connections", connections: 16, path: "/b1m", large: true, goal: 0.85},
	{name: "post-10k", what: "POST 10 KiB, 64 connections", connections: 64, path: "/b100", body: 10 << 10, goal: 0.95},
	{name: "fresh", what: "a new connection for each GET 100 B, 8 at a time", connections: 8, path: "/b100", fresh: true, goal: 1.3},
	{name: "tls-100", what: "TLS, GET 100 B, 64 connections", connections: 64, path: "/b100", tls: true, goal: 0.8},
	{name: "tls-1m", what: "TLS, GET 1 MiB, 16 connections", connections: 16, path: "/b1m", tls: true, large: true, goal: 0.9},
	{name: "handshake", what: "full TLS 1.3 handshake for each GET 100 B, X25519, 8 at a time", connections: 8, path: "/b100", tls: true, fresh: true, goal: 0.9},
	{
		name: "handshake-hybrid", what: "the same, clients that offer X25519MLKEM768 (the peers know X25519 alone)",
		connections: 8, path: "/b100", tls: true, fresh: true, hybrid: true, goal: 1.1,
	},
	{name: "h2", what: "HTTP/2 over TLS, GET 100 B, 10 connections of 32 streams", connections: 10, streams: 32, path: "/b100", tls: true, goal: 0.9},
	{
		name: "grpc", what: "gRPC unary, TLS to h2c, 100 B both ways, 10 connections of 32 streams",
		connections: 10, streams: 32, path: callPath, tls: true, call: true, goal: 0.3,
	},
	{name: "log", what: "GET 100 B, 64 connections, access log on", connections: 64, path: "/b100", log: true, goal: 1},
	{name: "traced", what: "GET 100 B, 64 connections, 1% of them traced and exported by Headgate alone", connections: 64, path: "/b100", traced: true, goal: 1.1},
	{name: "open-20", what: "GET 100 B arriving at 20% of nginx's peak", connections: 64, path: "/b100", share: 0.2, goal: 1.2},
	{name: "open-60", what: "GET 100 B arriving at 60% of nginx's peak", connections: 64, path: "/b100", share: 0.6, goal: 1},
	{name: "two-cores", what: "GET 100 B, 64 connections, two cores", connections: 64, path: "/b100", cores: 2, goal: 0.95 * twoCores},
	{
		name: "h2-two-cores", what: "HTTP/2 over TLS, 10 connections of 32 streams, two cores",
		connections: 10, streams: 32, path: "/b100", tls: true, cores: 2, goal: 0.9 * twoCores,
	},
	{name: "idle", what: "memory of an idle connection, of 10,000 that were used once", connections: 10_000, path: "/b100", idle: true, goal: 6},
	{name: "idle-tls", what: "the same over TLS", connections: 10_000, path: "/b100", tls: true, idle: true, goal: 18},
}

// twoCores is how much a ratio may be worse on two cores than on one.
const twoCores = 1.15

// chosen returns the scenarios that a comma-separated list names; "all" is
// every one.
func chosen(list string) ([]scenario, error) {
	if list == "all" {
		return scenarios, nil
	}
	var found []scenario
	for name := range strings.SplitSeq(list, ",") {
		s, err := named(name)
		if err != nil {
			return nil, err
		}
		found = append(found, s)
	}
	return found, nil
}

func named(name string) (scenario, error) {
	var names []string
	for _, s := range scenarios {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return scenario{}, fmt.Errorf("no scenario %q; there are %s, and all", name, strings.Join(names, ", "))
}
