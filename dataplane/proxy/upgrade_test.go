package proxy_test

import (
	"strings"
	"testing"
)

// TestUpgradeRequests is what becomes of a request that asks for another protocol,
// by how it asks (RFC 9110 section 7.8, RFC 6455 section 4.2.1). What is no
// handshake is forwarded as a plain request.
func TestUpgradeRequests(t *testing.T) {
	const asked = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	for _, c := range []struct {
		name, start, lines, body string
		upstream                 string // the lines about it that the backend sees
		status                   string // "": it is forwarded
	}{
		{name: "as usual", lines: asked, upstream: asked},
		{name: "any case", lines: "connection: uPGRADE\r\nupgrade: WebSocket\r\n", upstream: "Connection: Upgrade\r\nUpgrade: WebSocket\r\n"},
		{name: "beside keep-alive", lines: "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n", upstream: asked},
		{name: "two lines of Connection", lines: "Connection: keep-alive\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n", upstream: asked},
		{name: "empty members", lines: "Connection: ,,Upgrade ,\r\nUpgrade: websocket\r\n", upstream: asked},
		{name: "not named by Connection", lines: "Upgrade: websocket\r\n"},
		{name: "another token", lines: "Connection: Upgrades\r\nUpgrade: websocket\r\n"},
		{name: "no Upgrade", lines: "Connection: Upgrade\r\n"},
		{name: "empty Upgrade", lines: "Connection: Upgrade\r\nUpgrade:\r\n"},
		{name: "another protocol", lines: "Connection: Upgrade\r\nUpgrade: foo/2\r\n"},
		{name: "a list with another first", lines: "Connection: Upgrade\r\nUpgrade: foo/2, websocket\r\n", upstream: asked},
		{name: "a list with another last", lines: "Connection: Upgrade\r\nUpgrade: websocket, foo/2\r\n", upstream: asked},
		{name: "two lines of Upgrade", lines: "Connection: Upgrade\r\nUpgrade: foo/2\r\nUpgrade: websocket\r\n", upstream: asked},
		{name: "an empty line of Upgrade before", lines: "Upgrade:\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n", upstream: asked},
		{name: "h2c", lines: "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"},
		{name: "TLS", lines: "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n"},
		{name: "HTTP/1.0", start: "GET / HTTP/1.0", lines: "Connection: Upgrade, keep-alive\r\nUpgrade: websocket\r\n"},
		{name: "POST", start: "POST / HTTP/1.1", lines: asked, upstream: asked},
		{name: "with a body", start: "POST / HTTP/1.1", lines: asked + "Content-Length: 5\r\n", body: "hello", upstream: asked},
		{name: "and the fields of a websocket", lines: asked + "Sec-WebSocket-Key: " + someKey + "\r\nSec-WebSocket-Version: 13\r\n", upstream: asked},
		{name: "other versions are the backend's business", lines: asked + "Sec-WebSocket-Version: 8\r\n", upstream: asked},
		{name: "with an end of the connection", lines: "Connection: Upgrade, close\r\nUpgrade: websocket\r\n", upstream: asked},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t)
			client := start(t, single(b.address())).dial()
			if c.start == "" {
				c.start = "GET / HTTP/1.1"
			}
			client.send(c.start + "\r\nHost: h\r\n" + c.lines + "\r\n" + c.body)
			up := b.accept()
			head := up.head()
			if seen := upgradeLines(head); seen != c.upstream {
				t.Errorf("the backend sees %q in %q", seen, head)
			}
			if strings.Contains(c.lines, "Sec-WebSocket-Key") != strings.Contains(head, "Sec-WebSocket-Key: "+someKey+"\r\n") || strings.Contains(head, "HTTP2-Settings") {
				t.Errorf("the backend sees %q", head)
			}
			if got, err := up.read(len(c.body)); got != c.body {
				t.Errorf("%q, %v", got, err)
			}
			up.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			if answer := client.head(); !strings.HasPrefix(answer, "HTTP/1.1 200 OK\r\n") {
				t.Errorf("%q", answer)
			}
			client.sees("ok")
		})
	}
}

// upgradeLines are those of a head that are about a switch of protocols.
func upgradeLines(head string) string {
	var lines strings.Builder
	for line := range strings.SplitAfterSeq(head, "\r\n") {
		if name, _, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Connection") || strings.EqualFold(name, "Upgrade") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// TestUpgradeTowardsHTTP2 is what of that becomes a tunnel on a stream: a GET that
// has a key and no body. The rest is a plain request, or refused.
func TestUpgradeTowardsHTTP2(t *testing.T) {
	const asked = "Host: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	const key = "Sec-WebSocket-Key: " + someKey + "\r\n"
	for _, c := range []struct {
		name, head, body string
		method           string // that the backend sees; "": it sees nothing
		status           string
	}{
		{"as usual", "GET / HTTP/1.1\r\n" + asked + key, "", "CONNECT", "101"},
		{"two lines of Upgrade", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: foo/2\r\nUpgrade: websocket\r\n" + key, "", "CONNECT", "101"},
		{"with a length of 0", "GET / HTTP/1.1\r\n" + asked + key + "Content-Length: 0\r\n", "", "CONNECT", "101"},
		{"POST", "POST / HTTP/1.1\r\n" + asked + key, "", "POST", "200"},
		{"with a body", "GET / HTTP/1.1\r\n" + asked + key + "Content-Length: 5\r\n", "hello", "GET", "200"},
		{"no key", "GET / HTTP/1.1\r\n" + asked, "", "", "400"},
		{"short key", "GET / HTTP/1.1\r\n" + asked + "Sec-WebSocket-Key: c2hvcnQ=\r\n", "", "", "400"},
		{"key that is not base64", "GET / HTTP/1.1\r\n" + asked + "Sec-WebSocket-Key: ************************\r\n", "", "", "400"},
		{"two keys", "GET / HTTP/1.1\r\n" + asked + key + key, "", "", "400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t)
			client := start(t, singleOver("HTTP/2", b.address())).dial()
			client.send(c.head + "\r\n" + c.body)
			up := b.frames(connectAllowed)
			if c.method != "" {
				head := up.request()
				if got := head.PseudoValue("method"); got != c.method || (head.PseudoValue("protocol") == "websocket") != (c.method == "CONNECT") {
					t.Errorf("the backend sees %v", head.Fields)
				}
				up.answer(head.StreamID, c.method != "CONNECT", ":status", "200")
			}
			if answer := client.head(); !strings.HasPrefix(answer, "HTTP/1.1 "+c.status+" ") {
				t.Errorf("%q", answer)
			}
			client.close()
		})
	}
}

// TestSwitchBeforeTheRequest is an upstream that switches while the request still
// comes: the client hears of it, and of nothing that was meant for the upstream.
func TestSwitchBeforeTheRequest(t *testing.T) {
	b := newBackend(t)
	client := start(t, single(b.address())).dial()
	client.send("POST / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1000000\r\n\r\nsome")
	up := b.accept()
	up.head()
	up.sees("some")
	up.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if head := client.head(); !strings.HasPrefix(head, "HTTP/1.1 502 Bad Gateway\r\n") || !strings.Contains(head, "error=http_upgrade_failed") || strings.Contains(head, "X-Forwarded-For") {
		t.Errorf("%q", head)
	}
	up.gone()
}
