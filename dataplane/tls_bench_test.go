package dataplane

import (
	"crypto/tls"
	"net"
	"runtime"
	"testing"
)

// BenchmarkIdleTLS is what a connection over TLS holds that has served a request
// and rests, in bytes; what the client keeps of its own end is its socket alone.
func BenchmarkIdleTLS(b *testing.B) {
	k := newKeyring(b)
	k.issue("site", "site.example")
	g := start(b, Options{Folder: k.folder})
	g.apply(secured)
	at := g.at("web")
	visit := func() net.Conn {
		c, err := k.secure(at) // mustSecure would keep all of the client
		if err != nil {
			b.Fatal(err)
		}
		c.mustGet(b, "/")
		return c.Conn.(*tls.Conn).NetConn()
	}
	visit()
	const conns = 1000
	for b.Loop() {
		before := held()
		kept := make([]net.Conn, conns)
		for i := range kept {
			kept[i] = visit()
		}
		b.ReportMetric(float64(held()-before)/conns, "B/conn")
		for _, c := range kept {
			_ = c.Close()
		}
	}
}

// held is what is in use of heap and stacks once all garbage is gone.
func held() uint64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// BenchmarkHandshakeTLS is a connection, a full handshake and one request, both
// ends of it.
func BenchmarkHandshakeTLS(b *testing.B) {
	k := newKeyring(b)
	k.issue("site", "site.example")
	g := start(b, Options{Folder: k.folder})
	g.apply(secured)
	at := g.at("web")
	b.ReportAllocs()
	for b.Loop() {
		c, err := k.secure(at)
		if err != nil {
			b.Fatal(err)
		}
		c.mustGet(b, "/")
		_ = c.Close()
	}
}

// BenchmarkRequestTLS is one request on a connection that is kept.
func BenchmarkRequestTLS(b *testing.B) {
	k := newKeyring(b)
	k.issue("site", "site.example")
	g := start(b, Options{Folder: k.folder})
	g.apply(secured)
	c := k.mustSecure(g.at("web"))
	b.ReportAllocs()
	for b.Loop() {
		c.mustGet(b, "/")
	}
}
