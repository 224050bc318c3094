package http1

import (
	"testing"

	"github.com/headgate/headgate/dataplane/http1/testdata/corpus"
	"github.com/headgate/headgate/dataplane/message"
)

// wantNoAllocs runs f until its storage has grown, then counts.
func wantNoAllocs(t *testing.T, name string, f func()) {
	t.Helper()
	f()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s: %v allocations", name, n)
	}
}

func TestParsingAllocatesNothing(t *testing.T) {
	var req message.Request
	for name, head := range map[string]string{
		"browser": browserHead, "curl": curlHead,
		"absolute":  corpus.GetTarget("https://x/a?b"),
		"upgrade":   corpus.GetField("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nTE: gzip, trailers\r\n"),
		"upload":    corpus.Post("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n"),
		"connect":   "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n",
		"nominated": corpus.GetField("Connection: x-a\r\nX-A: b\r\n"),
	} {
		buf := []byte(head)
		wantNoAllocs(t, name, func() {
			if n, err := ParseRequest(buf, &req, nil); n != len(buf) || err != nil {
				t.Fatal(n, err)
			}
			for _, f := range req.Fields.All() {
				req.Fields.ConnectionNames(f.ID, f.Name)
			}
		})
		wantNoAllocs(t, name+" in part", func() {
			if n, err := ParseRequest(buf[:len(buf)-2], &req, nil); n != 0 || err != nil {
				t.Fatal(n, err)
			}
		})
	}
}

func TestParsingResponsesAllocatesNothing(t *testing.T) {
	var resp message.Response
	for _, head := range []string{nginxHead, corpus.OK("Content-Length: 5, 5\r\n"), corpus.OK("Transfer-Encoding: chunked\r\n"), corpus.OK("")} {
		buf := []byte(head)
		wantNoAllocs(t, head, func() {
			if n, err := ParseResponse(buf, &resp, nil, message.MethodGet); n != len(buf) || err != nil {
				t.Fatal(n, err)
			}
		})
	}
}

func TestBodiesAllocateNothing(t *testing.T) {
	var d Decoder
	buf := []byte("5;a=\"b\"\r\nhello\r\n3\r\nabc\r\n0\r\nA: b\r\nGrpc-Status: 0\r\n\r\n")
	out := make([]byte, 0, 256)
	wantNoAllocs(t, "chunked", func() {
		d.Reset(message.Body{Kind: message.BodyChunked}, nil)
		for rest := buf; !d.Done(); {
			_, n, err := d.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		out = AppendTrailers(AppendChunkHeader(AppendStatusLine(out[:0], 200, nil), 5), d.Trailers())
	})
}
