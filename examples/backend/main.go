// Command backend is a small web server to put behind a data plane: it says
// its name and what it was asked, and can be told to be ill.
//
//	backend --name red --address 127.0.0.1:9001
//	curl 127.0.0.1:9001/any/path              red GET /any/path
//	curl 127.0.0.1:9001/healthz               200, or what it was last told
//	curl -X PUT '127.0.0.1:9001/healthz?status=503'
//	curl 127.0.0.1:9001/headers               the fields of the request
//	curl -T - 127.0.0.1:9001/echo             what comes in, while it comes in
//
// A websocket at /websocket says back each message that it is sent.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	name := flag.String("name", "backend", "what it calls itself")
	address := flag.String("address", "127.0.0.1:9001", "host:port to listen on; port 0 lets the kernel choose")
	flag.Parse()
	if err := run(*name, *address); err != nil {
		slog.Error("backend stopped", "name", *name, "error", err)
		os.Exit(1)
	}
}

// run serves until SIGTERM or SIGINT, then finishes what it is answering.
func run(name, address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	slog.Info("backend listens", "name", name, "address", listener.Addr())
	server := &http.Server{Handler: newHandler(name), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(grace), ignoreClosed(<-ended))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// newHandler answers every path with the name and the request line, but for
// those that the package comment lists.
func newHandler(name string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "%s %s %s\n", name, r.Method, r.URL.RequestURI())
	})
	mux.HandleFunc("/headers", sayHeaders)
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("GET /websocket", serveWebsocket)
	addHealth(mux)
	return mux
}

// addHealth adds /healthz, with a status that a PUT can change.
func addHealth(mux *http.ServeMux) {
	var health atomic.Int32
	health.Store(http.StatusOK)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(health.Load()))
	})
	mux.HandleFunc("PUT /healthz", func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.ParseInt(r.FormValue("status"), 10, 32)
		if err != nil || status < 200 || status > 599 {
			http.Error(w, "status must be a number from 200 to 599", http.StatusBadRequest)
			return
		}
		health.Store(int32(status))
		w.WriteHeader(http.StatusNoContent)
	})
}

// sayHeaders lists the fields of the request by name, Host among them.
func sayHeaders(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fields := r.Header.Clone()
	fields.Set("Host", r.Host)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		for _, value := range fields[field] {
			fmt.Fprintf(w, "%s: %s\n", field, value)
		}
	}
}

// echo says each piece of the body back before it reads the next.
func echo(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	// HTTP/1.1 of net/http reads the whole body before it answers, unless told otherwise.
	if err := control.EnableFullDuplex(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	piece := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(piece)
		if _, failed := w.Write(piece[:n]); failed != nil {
			return
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				panic(http.ErrAbortHandler) // so that the client is not told that this was all
			}
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
	}
}
