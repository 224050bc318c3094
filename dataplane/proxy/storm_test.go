package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
)

// TestStorm runs exchanges of all kinds while snapshots go live one after the
// other: every answer is whole and belongs to its request.
func TestStorm(t *testing.T) {
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Path", r.URL.Path)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(body)
	}))
	config := func(n int) string {
		return manifest(
			fmt.Sprintf("clusters: [{name: main, endpoints: [{address: '%s'}]}, {name: c%d, endpoints: [{address: '%s'}]}]", server, n%3, server),
			fmt.Sprintf("routes: [{name: all, forward: {backends: [{cluster: main, weight: %d}, {cluster: c%d}]}}]", n%2+1, n%3),
		)
	}
	g := start(t, config(0))
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 4 {
		client := visit(t, g)
		clients.Go(func() { exchanges(t, client, i, stop) })
	}
	for n := range 300 {
		g.apply(config(n))
	}
	close(stop)
	clients.Wait()
	for _, r := range g.recorder.Recent(nil, 100000) {
		if r.Status != 200 || r.Reason != "" || r.Attempts != 1 {
			t.Errorf("%+v", r)
		}
	}
}

func exchanges(t *testing.T, client *visitor, id int, stop chan struct{}) {
	rnd := rand.New(rand.NewPCG(uint64(id), 1))
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		body := noise(rnd.IntN(1 << rnd.IntN(19)))
		sent := io.Reader(bytes.NewReader(body))
		if n%2 == 0 {
			sent = unsized{sent}
		}
		path := fmt.Sprintf("/%d/%d", id, n)
		resp, err := client.Post(client.base+path, "text/plain", sent)
		if err != nil {
			t.Error(err)
			return
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("X-Path") != path || !bytes.Equal(got, body) {
			t.Errorf("%s: %s for %s, %d bytes of %d, %v", path, resp.Status, resp.Header.Get("X-Path"), len(got), len(body), err)
			return
		}
	}
}
