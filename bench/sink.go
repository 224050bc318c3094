package main

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// sink receives what is exported by OTLP over HTTP and forgets it. It answers
// with an empty message, which says that everything was taken.
type sink struct {
	listener net.Listener
	bytes    atomic.Int64 // received as traces
}

func startSink() (*sink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{listener: listener}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/{signal}", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // cut short: what came counts
		if r.PathValue("signal") == "traces" {
			s.bytes.Add(n)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with the program
	return s, nil
}
