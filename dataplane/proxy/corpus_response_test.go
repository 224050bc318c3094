package proxy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/http1/testdata/corpus"
	"github.com/headgate/headgate/dataplane/message"
)

// TestResponseCorpus has a backend answer with the corpus of the parser. What the
// parser refuses becomes a 502 of ours, with none of its bytes; what it takes
// reaches the client as one answer that net/http and our parser read alike. A
// second exchange over the same connection shows that the first ended where it
// should.
func TestResponseCorpus(t *testing.T) {
	for _, class := range corpus.Responses {
		t.Run(class.Rule, func(t *testing.T) {
			t.Parallel()
			for _, c := range class.Cases {
				runResponseCase(t, c)
			}
		})
	}
}

func runResponseCase(t *testing.T, c corpus.Case) {
	t.Helper()
	method, in, ok := strings.Cut(c.In, "|")
	if !ok {
		method, in = "GET", c.In
	}
	if method == "CONNECT" {
		return // is not forwarded
	}
	var resp message.Response
	n, err := http1.ParseResponse([]byte(in), &resp, nil, message.ParseMethod([]byte(method)))
	want, answer := wantedAnswer(&resp, n, err, method, in)
	got := exchangeWith(t, method, answer)
	answers, bodies := readAnswers(t, got, method, "GET")
	if len(answers) != want.interim+2 || bodies[len(bodies)-1] != "ok" {
		t.Errorf("%.200q\nreached the client as %.300q", in, got)
		return
	}
	final := answers[want.interim]
	body := bodies[want.interim]
	if want.status == 502 {
		body, _, _ = strings.Cut(body, ":")
	}
	if final.StatusCode != want.status || body != want.body {
		t.Errorf("%.200q\nreached the client as %.300q", in, got)
	}
	if ours := final.Header.Get("Proxy-Status") != ""; ours != (want.status == 502) {
		t.Errorf("%.200q: Proxy-Status %q", in, final.Header.Get("Proxy-Status"))
	}
	weReadTheSame(t, got, method, answers, bodies)
}

// wanted is what the client must see.
type wanted struct {
	interim, status int
	body            string
}

// wantedAnswer completes a head with a body, and says what becomes of it.
func wantedAnswer(resp *message.Response, n int, err error, method, in string) (want wanted, answer string) {
	var fault *http1.Error
	switch {
	case errors.As(err, &fault), n == 0, resp.Status == 101:
		if want.status = 502; method != "HEAD" {
			want.body = "Bad Gateway"
		}
		return want, in
	case resp.Status < 200:
		return wanted{interim: 1, status: 200, body: "ok"}, in + plainAnswer
	}
	want.status = resp.Status
	switch resp.Body.Kind {
	case message.BodyChunked:
		want.body = "hello"
		return want, in + "5\r\nhello\r\n0\r\n\r\n"
	case message.BodyUntilClose:
		want.body = "hello"
	case message.BodyLength:
		want.body = "hello"[:resp.Body.Length]
	}
	return want, in + "hello" // none of it counts where there is no body
}

// exchangeWith is all that a client sees of an exchange that a backend answers
// in a way, and of a plain one behind it.
func exchangeWith(t *testing.T, method, answer string) string {
	t.Helper()
	b := keepLedger(t)
	b.answer = func(head *http.Request) string {
		if head.RequestURI == "/sentinel" {
			return plainAnswer
		}
		return answer
	}
	g := start(t, single(b.address))
	client := g.dial()
	defer client.close()
	client.send(method + " /case HTTP/1.1\r\nHost: h\r\n\r\n" + sentinel)
	got, err := client.rest()
	if err != nil {
		t.Errorf("%.200q: %v after %.300q", answer, err, got)
	}
	b.closed(g)
	return got
}

// readAnswers reads the answers to methods in order, up to the end.
func readAnswers(t *testing.T, raw string, methods ...string) (answers []*http.Response, bodies []string) {
	t.Helper()
	r := bufio.NewReader(strings.NewReader(raw))
	for _, method := range methods {
		for final := false; !final; {
			resp, err := http.ReadResponse(r, &http.Request{Method: method})
			if err != nil {
				t.Errorf("%.300q: %v", raw, err)
				return answers, bodies
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Errorf("%.300q: %v", raw, err)
			}
			answers, bodies = append(answers, resp), append(bodies, string(body))
			final = resp.StatusCode >= 200
		}
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		t.Errorf("%q behind the answers in %.300q", rest, raw)
	}
	return answers, bodies
}

// weReadTheSame reads the answers with our parser, which is stricter.
func weReadTheSame(t *testing.T, raw, method string, answers []*http.Response, bodies []string) {
	t.Helper()
	rest := []byte(raw)
	for i, theirs := range answers {
		var ours message.Response
		if i == len(answers)-1 {
			method = "GET"
		}
		n, err := http1.ParseResponse(rest, &ours, nil, message.ParseMethod([]byte(method)))
		if err != nil || n == 0 || ours.Status != theirs.StatusCode {
			t.Errorf("%.300q: we read %d, %v", rest, ours.Status, err)
			return
		}
		body, used := readBody(t, ours.Body, rest[n:])
		if body != bodies[i] {
			t.Errorf("%.300q: we read the body %q, net/http %q", rest, body, bodies[i])
		}
		rest = rest[n+used:]
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		t.Errorf("%q is left", rest)
	}
}

func readBody(t *testing.T, framing message.Body, in []byte) (body string, used int) {
	t.Helper()
	var d http1.Decoder
	for d.Reset(framing, nil); !d.Done(); {
		piece, n, err := d.Next(in[used:])
		body, used = body+string(piece), used+n
		if err != nil || n == 0 && !d.Done() {
			t.Errorf("body %s of %.200q: %v", fmt.Sprint(framing), in, err)
			break
		}
	}
	return body, used
}
