package dataplane

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// BenchmarkClients is requests that the data plane answers itself, on 4 connections
// of 16 streams, by the protocols that a listener with TLS offers. Both ends are in
// it, and those of the clients differ in what they cost: net/http's for HTTP/2, that
// of quic-go for HTTP/3. "cpu-us/op" is the processor's time of both.
func BenchmarkClients(b *testing.B) {
	k := newKeyring(b)
	k.issue("site", "site.example")
	_, backend := newHeldSite(b)
	g := start(b, Options{Folder: k.folder})
	g.apply(quicManifest(true, "", backend))
	clients := map[string]func() (http.RoundTripper, string){
		"HTTP/2": func() (http.RoundTripper, string) {
			t := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: k.Pool(), ServerName: "site.example"}}
			b.Cleanup(t.CloseIdleConnections)
			return t, fmt.Sprintf("https://127.0.0.1:%d", g.at("web").(*net.TCPAddr).Port)
		},
		"HTTP/3": func() (http.RoundTripper, string) {
			c := k.mustQUIC(g.at("web"))
			return c, c.base
		},
	}
	for name, connect := range clients {
		b.Run(name, func(b *testing.B) { benchmarkClients(b, connect) })
	}
}

func benchmarkClients(b *testing.B, connect func() (http.RoundTripper, string)) {
	calls := make(chan struct{}, 1024)
	var work sync.WaitGroup
	for range 4 {
		client, base := connect()
		askOwn(b, client, base)
		for range 16 {
			work.Go(func() {
				for range calls {
					askOwn(b, client, base)
				}
			})
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime()
	for range b.N {
		calls <- struct{}{}
	}
	close(calls)
	work.Wait()
	b.ReportMetric(float64((processorTime()-before).Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
}

func askOwn(b *testing.B, client http.RoundTripper, base string) {
	req, _ := http.NewRequest(http.MethodGet, base+"/own", http.NoBody)
	resp, err := client.RoundTrip(req)
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "own" {
		b.Errorf("%q, %v", body, err)
	}
}
