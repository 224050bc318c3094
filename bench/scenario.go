package main

import (
	"fmt"
	"strings"
)

// scenario is one kind of load.
type scenario struct {
	name        string
	what        string // for the report
	connections int
	request     []byte // the whole request, as it goes over the wire
	size        int    // bytes in the body of its answer
	rate        int    // requests a second that arrive whatever becomes of them; 0: each connection asks again when answered
	idle        bool   // measures memory instead
}

// defaultScenario is measured if -only names none: it is the one with a bar.
const defaultScenario = "get-100"

const openRate = 4000 // about a fifth of what nginx can do on such a core

func get(path string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
}

func post(path string, size int) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: bench\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
		path, size, strings.Repeat("x", size))
}

var scenarios = []scenario{
	{name: "get-100", what: "GET of 100 B, 64 kept connections", connections: 64, request: get("/b100"), size: 100},
	{name: "get-100-c512", what: "GET of 100 B, 512 kept connections", connections: 512, request: get("/b100"), size: 100},
	{name: "get-10k", what: "GET of 10 KiB, 64 kept connections", connections: 64, request: get("/b10k"), size: 10 << 10},
	{name: "get-1m", what: "GET of 1 MiB, 16 kept connections", connections: 16, request: get("/b1m"), size: 1 << 20},
	{name: "post-10k", what: "POST of 10 KiB, 64 kept connections", connections: 64, request: post("/b100", 10<<10), size: 100},
	{
		name: "open", what: fmt.Sprintf("GET of 100 B, %d a second (Poisson) over 64 connections", openRate),
		connections: 64, request: get("/b100"), size: 100, rate: openRate,
	},
	{
		name: "idle", what: "memory of 4,000 connections that were used once and are kept",
		connections: 4000, request: get("/b100"), size: 100, idle: true,
	},
}

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
