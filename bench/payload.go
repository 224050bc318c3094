package main

import (
	"fmt"
	"strings"
)

// answers are the paths that the backend knows and the bytes in their bodies.
var answers = map[string]int{"/b100": 100, "/b10k": 10 << 10, "/b1m": 1 << 20}

// pattern is a body of that many bytes. It repeats after a prime number of them,
// so that a piece that is lost or comes twice is seen.
func pattern(size int) []byte {
	const period = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXY" // 61
	return []byte(strings.Repeat(period, size/len(period)+1)[:size])
}

// callPath is the method that the backend has. It answers a message with the
// same message.
const callPath = "/bench.Echo/Unary"

// callMessage is one message of gRPC: not compressed, its length, and a string
// of 98 B in field 1, which makes 100 B.
var callMessage = append([]byte{0, 0, 0, 0, 100, 0x0a, 98}, pattern(98)...)

// requestHTTP1 is a whole request, as it goes over the wire.
func (s *scenario) requestHTTP1() []byte {
	method, more := "GET", ""
	if s.body > 0 {
		method, more = "POST", fmt.Sprintf("Content-Type: text/plain\r\nContent-Length: %d\r\n", s.body)
	}
	if s.fresh {
		more += "Connection: close\r\n"
	}
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: bench\r\nAccept: */*\r\n%s\r\n", method, s.path, more)
	return append([]byte(head), pattern(s.body)...)
}
