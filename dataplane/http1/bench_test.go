package http1

import (
	"testing"

	"github.com/headgate/headgate/dataplane/message"
)

const browserHead = "GET /v1/users/42?expand=teams&page=2 HTTP/1.1\r\n" +
	"Host: api.example.com\r\n" +
	"Connection: keep-alive\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
	"Accept-Language: en-GB,en;q=0.9\r\n" +
	"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n" +
	"Cache-Control: max-age=0\r\n\r\n"

const curlHead = "GET /v1/users HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: curl/8.14.1\r\nAccept: */*\r\n\r\n"

const nginxHead = "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sun, 29 Nov 2026 12:00:00 GMT\r\n" +
	"Content-Type: application/json\r\nContent-Length: 100\r\nConnection: keep-alive\r\nETag: \"5f-64\"\r\n\r\n"

func BenchmarkParseRequest(b *testing.B) {
	for _, head := range []struct{ name, text string }{{"browser", browserHead}, {"curl", curlHead}} {
		b.Run(head.name, func(b *testing.B) {
			buf := []byte(head.text)
			var req message.Request
			b.ReportAllocs()
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				if n, err := ParseRequest(buf, &req, nil); n != len(buf) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

func BenchmarkParseResponse(b *testing.B) {
	buf := []byte(nginxHead)
	var resp message.Response
	b.ReportAllocs()
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		if n, err := ParseResponse(buf, &resp, nil, message.MethodGet); n != len(buf) || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkChunked(b *testing.B) {
	buf := AppendChunkHeader(nil, 1000)
	buf = append(buf, make([]byte, 1000)...)
	buf = append(buf, "\r\n"+LastChunk...)
	var d Decoder
	b.ReportAllocs()
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		d.Reset(message.Body{Kind: message.BodyChunked}, nil)
		for rest := buf; !d.Done(); {
			_, n, err := d.Next(rest)
			if err != nil {
				b.Fatal(err)
			}
			rest = rest[n:]
		}
	}
}
