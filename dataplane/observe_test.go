package dataplane

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/certificate/testca"
)

// metrics is what /metrics shows.
func (g *gate) metrics() string {
	g.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + g.AdminAddr().String() + "/metrics")
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(text)
}

// What only grows is a counter, and every metric of ours says what it is.
func TestMetricsAreDescribed(t *testing.T) {
	k := newKeyring(t)
	end := time.Now().Add(30 * 24 * time.Hour).Truncate(time.Second)
	p := k.Issue([]string{"site.example"}, testca.Expires(end))
	k.put("site.crt", p.Cert)
	k.put("site.key", p.Key)
	g := start(t, Options{Folder: k.folder, Admin: "127.0.0.1:0"})
	g.apply(secured + `
caBundles: [{name: staff, file: ca.pem}]
clusters: [{name: up, endpoints: [{address: "127.0.0.1:1"}]}]
`)
	c := k.mustSecure(g.at("web"))
	if a := c.mustGet(t, "/"); a.body != "here" {
		t.Error(a)
	}
	page := g.metrics()
	for _, want := range []string{
		"# TYPE headgate_listener_tls_handshakes_total counter",
		`headgate_listener_tls_handshakes_total{headgate_listener="web"} 1`,
		"# TYPE headgate_listener_tls_resumed_total counter",
		"# TYPE headgate_listener_refused_total counter",
		"# TYPE headgate_listener_connections gauge",
		`headgate_certificate_expiry_timestamp_seconds{headgate_certificate="site"} `,
		`headgate_ca_bundle_expiry_timestamp_seconds{headgate_ca_bundle="staff"} `,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("missing: %s", want)
		}
	}
	for line := range strings.Lines(page) {
		name, help, _ := strings.Cut(strings.TrimPrefix(line, "# HELP "), " ")
		if name != line && strings.HasPrefix(name, "headgate_") && strings.TrimSpace(help) == "" {
			t.Errorf("%s does not say what it is", name)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}
