package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWireBodies sends bodies both ways over every pair of protocols, with their
// lengths said and not.
func TestWireBodies(t *testing.T) {
	sizes := []int{0, 1, 100, 16<<10 - 1, 16 << 10, 70 << 10, 1 << 20, 10 << 20}
	if raced {
		sizes = sizes[:len(sizes)-1]
	}
	overWires(t, echo, func(t *testing.T, client *visitor, _ *gate) {
		for _, size := range sizes {
			sent := noise(size)
			for name, body := range map[string]io.Reader{"length": bytes.NewReader(sent), "no length": unsized{bytes.NewReader(sent)}} {
				resp, err := client.Post(client.base+"/", "text/plain", body)
				if err != nil {
					t.Fatal(err)
				}
				if name == "length" && resp.ContentLength != int64(size) {
					t.Errorf("Content-Length %d of %d bytes", resp.ContentLength, size)
				}
				if got := whole(t, resp); !bytes.Equal(got, sent) {
					t.Errorf("%d bytes by %s: %d came back", size, name, len(got))
				}
			}
		}
	})
}

// TestWireNoBody is answers that have none: HEAD, 204 and 304. The length that an
// answer to HEAD tells is that of another, and stays.
func TestWireNoBody(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.Header().Set("ETag", `"x"`)
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("Content-Length", "1234")
			if r.Method != http.MethodHead {
				_, _ = w.Write(make([]byte, 1234))
			}
		}
	}
	overWires(t, h, func(t *testing.T, client *visitor, _ *gate) {
		for range 3 {
			for _, c := range []struct {
				method, path string
				status       int
				length       int64
			}{{"HEAD", "/", 200, 1234}, {"GET", "/204", 204, 0}, {"GET", "/304", 304, 0}, {"GET", "/", 200, 1234}} {
				req, _ := http.NewRequestWithContext(t.Context(), c.method, client.base+c.path, nil)
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if c.path == "/304" {
					resp.ContentLength = 0 // the clients differ in what they make of none
				}
				if err != nil || resp.StatusCode != c.status || resp.ContentLength != c.length || c.method == "HEAD" && len(body) > 0 {
					t.Errorf("%s %s: %d, length %d, %d bytes, %v", c.method, c.path, resp.StatusCode, resp.ContentLength, len(body), err)
				}
			}
		}
	})
}

// TestWireTrailers sends trailers both ways, with a body and without.
func TestWireTrailers(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(body)
		w.Header().Set("X-Sum", fmt.Sprint(len(body)))
		w.Header().Set(http.TrailerPrefix+"X-Request-Trailer", r.Trailer.Get("X-Sent"))
	}
	overWires(t, h, func(t *testing.T, client *visitor, _ *gate) {
		for _, size := range []int{0, 10, 100 << 10} {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, client.base+"/", unsized{bytes.NewReader(noise(size))})
			req.Trailer = http.Header{"X-Sent": {fmt.Sprint("after ", size)}}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := whole(t, resp); len(got) != size {
				t.Errorf("%d bytes of %d", len(got), size)
			}
			if got := resp.Trailer; got.Get("X-Sum") != fmt.Sprint(size) || got.Get("X-Request-Trailer") != fmt.Sprint("after ", size) {
				t.Errorf("%d bytes: trailers %v", size, got)
			}
		}
	})
}

// TestWireInterim is heads before the final one: hints, and the leave to send a
// body, which waits for it. The two are apart because net/http's server of HTTP/2
// gives no leave after hints.
func TestWireInterim(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hints":
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
		case "/refused":
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.Copy(w, r.Body)
	}
	overWires(t, h, func(t *testing.T, client *visitor, _ *gate) {
		if first, ok := client.Transport.(*http.Transport); ok {
			first.ExpectContinueTimeout = patience
		}
		for _, c := range []struct {
			path, expect, body string
			status             int
			interim            string
		}{
			{"/hints", "", "hello", 200, "103 </style.css>; rel=preload"},
			{"/leave", "100-continue", "hello", 200, "100 "},
			{"/refused", "100-continue", "", 401, ""},
		} {
			var interim []string
			trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				interim = append(interim, fmt.Sprint(code, " ", h.Get("Link")))
				return nil
			}}
			req, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, client.base+c.path, strings.NewReader("hello"))
			if c.expect != "" {
				req.Header.Set("Expect", c.expect)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != c.status || string(body) != c.body || strings.Join(interim, "|") != c.interim {
				t.Errorf("%s: %d %q after %q, %v", c.path, resp.StatusCode, body, interim, err)
			}
		}
	})
}

// TestWireFullDuplex answers each piece before the next is sent.
func TestWireFullDuplex(t *testing.T) {
	overWires(t, echo, func(t *testing.T, client *visitor, _ *gate) {
		r, w := io.Pipe()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, client.base+"/", r)
		var sending sync.WaitGroup
		defer sending.Wait()
		sending.Go(func() { _, _ = io.WriteString(w, "begin ") })
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		piece := make([]byte, 6)
		if _, err := io.ReadFull(resp.Body, piece); err != nil || string(piece) != "begin " {
			t.Fatalf("%q, %v", piece, err)
		}
		for range 20 {
			sending.Go(func() { _, _ = io.WriteString(w, "again ") })
			if _, err := io.ReadFull(resp.Body, piece); err != nil || string(piece) != "again " {
				t.Fatalf("%q, %v", piece, err)
			}
		}
		_ = w.Close()
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

// TestWireFields is what of the fields goes which way.
func TestWireFields(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		seen := r.Header.Clone()
		seen.Set("Host", r.Host)
		for name, values := range seen {
			for _, v := range values {
				w.Header().Add("Saw-"+name, v)
			}
		}
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
	}
	overWires(t, h, func(t *testing.T, client *visitor, _ *gate) {
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, client.base+"/a?b=c", nil)
		req.Host = "example.com:8080"
		req.Header = http.Header{
			"Cookie": {"a=1; b=2; c=3"}, "Te": {"trailers"}, "Traceparent": {parent}, "Tracestate": {"a=b"},
			"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Proto": {"https"}, "X_Auth_User": {"evil"}, "X-Auth-User": {"good"},
			"X-Many": {"1", "2"},
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = whole(t, resp)
		for name, want := range map[string]string{
			"Saw-Host": "example.com:8080", "Saw-Cookie": "a=1; b=2; c=3", "Saw-Te": "trailers", "Saw-Traceparent": parent,
			"Saw-Tracestate": "a=b", "Saw-X-Forwarded-For": "192.0.2.1, 127.0.0.1", "Saw-X-Forwarded-Proto": strings.Split(client.base, ":")[0],
			"Saw-X-Forwarded-Host": "example.com:8080", "Saw-X_auth_user": "", "Saw-X-Auth-User": "good", "Saw-X-Many": "1|2",
			"Set-Cookie": "a=1|b=2",
		} {
			if got := strings.Join(resp.Header.Values(name), "|"); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

// TestWireCancel has a client leave while its answer is awaited, and in the
// middle of it. The backend hears of it, and so does the record.
func TestWireCancel(t *testing.T) {
	visits := make(chan chan struct{}, 1) // each is closed when the handler is told
	h := func(w http.ResponseWriter, r *http.Request) {
		told := make(chan struct{})
		if r.URL.Path == "/begun" {
			_ = http.NewResponseController(w).Flush()
		}
		visits <- told
		<-r.Context().Done()
		close(told)
	}
	for _, w := range wires {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			address := serveOver(t, w.upstream, http.HandlerFunc(h))
			g := start(t, singleOver(w.upstream, address))
			client := visitOver(t, w.client, g)
			for i, path := range []string{"/awaited", "/begun"} {
				ctx, cancel := context.WithCancel(t.Context())
				req, _ := http.NewRequestWithContext(ctx, http.MethodGet, client.base+path, nil)
				var asking sync.WaitGroup
				asking.Go(func() {
					if resp, err := client.Do(req); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					}
				})
				told := <-visits
				cancelled := time.Now()
				cancel()
				<-told
				t.Logf("%s: the backend heard after %v", path, time.Since(cancelled).Round(time.Millisecond))
				asking.Wait()
				if r := g.recent(i + 1)[i]; r.Reason != "client_gone" || path == "/awaited" && r.Status != 499 {
					t.Errorf("%s: %+v", path, r)
				}
			}
		})
	}
}
