// Package admin is the HTTP side of a data plane for people and scrapers:
// health, metrics, recent requests, the configuration, profiles. It owns no
// state: it shows what it is given. It must not know how requests are served,
// and it changes nothing: only GET and HEAD are allowed.
package admin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options are what Handler shows. A nil field leaves its page out; a nil Ready
// means always ready.
type Options struct {
	Recorder *telemetry.Recorder   // /metrics and /debug/requests
	Ready    func() (bool, string) // /readyz; the text is the reason if not ready
	Status   func() any            // /debug/status, as JSON
	Config   func() []byte         // /debug/config; the caller has taken the secrets out
	Logger   *slog.Logger          // errors while metrics are written; default: discards
}

// page is one path of the handler.
type page struct {
	path    string
	about   string
	handler http.HandlerFunc
}

// Handler serves the pages. It belongs on a loopback or otherwise protected
// address: profiles and requests are not for everybody.
func Handler(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	pages := o.pages()
	mux := http.NewServeMux()
	for _, p := range pages {
		mux.HandleFunc(p.path, p.handler)
	}
	for name, handler := range map[string]http.HandlerFunc{
		"cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.HandleFunc("/debug/pprof/"+name, handler)
	}
	mux.HandleFunc("/{$}", index(pages))
	return onlyReads(mux)
}

func (o *Options) pages() []page {
	pages := []page{
		{"/healthz", "200 while the process serves", text("ok\n")},
		{"/readyz", "200 while it takes traffic, else 503 and why", o.ready},
	}
	if o.Recorder != nil {
		pages = append(pages,
			page{"/metrics", "metrics for Prometheus", o.metrics()},
			page{"/debug/requests", "recent requests as JSON; " + filterHelp, o.requests})
	}
	if o.Status != nil {
		pages = append(pages, page{"/debug/status", "state of the data plane as JSON", o.status})
	}
	if o.Config != nil {
		pages = append(pages, page{"/debug/config", "the active snapshot, without secrets", o.config})
	}
	return append(pages, page{"/debug/pprof/", "profiles of the Go runtime", pprof.Index})
}

// onlyReads refuses every method that could change something (RFC 9110 section
// 15.5.6).
func onlyReads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, req)
	})
}

const plain = "text/plain; charset=utf-8"

// text answers with a fixed text.
func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { write(w, plain, []byte(body)) }
}

// write sends a body. An error means that the reader is gone: there is nobody to
// tell.
func write(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body)
}

func writeJSON(w http.ResponseWriter, value any) {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, "cannot be told as JSON: "+err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, "application/json", append(body, '\n'))
}

// index lists the pages.
func index(pages []page) http.HandlerFunc {
	var list strings.Builder
	list.WriteString("Headgate data plane\n\n")
	for _, p := range pages {
		fmt.Fprintf(&list, "%-16s %s\n", p.path, p.about)
	}
	return text(list.String())
}

func (o *Options) ready(w http.ResponseWriter, _ *http.Request) {
	if o.Ready != nil {
		if ready, reason := o.Ready(); !ready {
			http.Error(w, reason, http.StatusServiceUnavailable)
			return
		}
	}
	write(w, plain, []byte("ready\n"))
}

// metrics serves the Prometheus formats. A failed part does not hide the rest.
func (o *Options) metrics() http.HandlerFunc {
	handler := promhttp.HandlerFor(o.Recorder.Gatherer(), promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(o.Logger.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
		EnableOpenMetrics:   true,
	})
	return handler.ServeHTTP
}

func (o *Options) status(w http.ResponseWriter, _ *http.Request) { writeJSON(w, o.Status()) }

// config is JSON or YAML, as the owner gives it.
func (o *Options) config(w http.ResponseWriter, _ *http.Request) {
	body := o.Config()
	if json.Valid(body) {
		write(w, "application/json", body)
		return
	}
	write(w, "application/yaml", body)
}
