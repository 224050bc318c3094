package proxy_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/headgate/headgate/dataplane/proxy"
	"github.com/headgate/headgate/dataplane/telemetry"
	"github.com/headgate/headgate/dataplane/upstream"
)

// A client of HTTP/2 that awaits an answer is asked whether it is there, as often as it
// says yes, and is cut off when it is gone without a word.
func TestSilentStreamClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.DiscardHandler)
		recorder, err := telemetry.New(context.Background(), telemetry.Options{Shards: 1, Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		g := &gate{t: t, recorder: recorder, engine: proxy.New(logger), registry: upstream.NewRegistry(upstream.Options{Shards: 1})}
		g.apply(`
listeners: [{name: web, address: "127.0.0.1:1", timeouts: {idle: 600s}}]
routes: [{name: late, respond: {status: 200}, fault: {delay: {percent: 100, duration: 3600s}}}]`)
		far, near := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			g.engine.NewConn(near, 0, 0).Serve()
		}()
		var pings atomic.Int32
		var gone atomic.Bool
		go answerPings(far, &pings, &gone)

		var hello, block bytes.Buffer
		hello.WriteString(xhttp2.ClientPreface)
		frames := xhttp2.NewFramer(&hello, nil)
		_ = frames.WriteSettings()
		_ = frames.WriteSettingsAck()
		encoder := hpack.NewEncoder(&block)
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "a.example"}, {":path", "/"}} {
			_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		_ = frames.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
		if _, err := far.Write(hello.Bytes()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := pings.Load(); n < 5 || n > 10 {
			t.Errorf("asked %d times in 5 minutes", n)
		}
		select {
		case <-served:
			t.Error("a client that answers was cut off")
		default:
		}
		gone.Store(true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		select {
		case <-served:
		default:
			t.Error("a client that is gone is still served")
		}
		_ = far.Close()
		<-served
		g.engine.Close()
		g.registry.Close()
		if err := recorder.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// answerPings reads what comes and counts the pings, which it answers until it is gone.
func answerPings(c net.Conn, pings *atomic.Int32, gone *atomic.Bool) {
	frames := xhttp2.NewFramer(c, c)
	for {
		f, err := frames.ReadFrame()
		if err != nil {
			_, _ = io.Copy(io.Discard, c)
			return
		}
		if ping, ok := f.(*xhttp2.PingFrame); ok && !ping.IsAck() {
			pings.Add(1)
			if !gone.Load() {
				_ = frames.WritePing(true, ping.Data)
			}
		}
	}
}
