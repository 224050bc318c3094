package proxy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/http1"
	"github.com/headgate/headgate/dataplane/http1/testdata/corpus"
	"github.com/headgate/headgate/dataplane/message"
)

// engineStricter holds the reasons for which the engine refuses what net/http
// takes, besides those of the head, which FuzzRequestHead of http1 holds. Any
// other difference is a fault of ours or theirs, to be looked at.
var engineStricter = []string{
	// What net/http serves and a proxy must not, or need not.
	"CONNECT is not served here",
	// Paths.
	"path: bad percent escape", "path: control byte", "path: escaped control byte", "path: byte that must be escaped",
	// Bodies.
	"malformed chunk size", "malformed chunk extension", "chunk size too large", "chunk extensions too large", "chunk data longer than its size",
	"white space in a chunk line", "LF without CR in a chunk line", "CR without LF in a chunk line", "CR without LF after chunk data",
	"framing field among trailers", "malformed trailer field", "too many trailer fields", "trailer section too large",
}

// A seen is a request as somebody read it to its end.
type seen struct {
	method, target, host, body string
	header                     http.Header
}

func seenOf(r *http.Request, body []byte) seen {
	return seen{r.Method, r.RequestURI, r.Host, string(body), r.Header}
}

// scripted is a connection over which a client says what it has to say and
// leaves.
type scripted struct {
	in    *bytes.Reader
	out   bytes.Buffer
	ended chan struct{}
	once  sync.Once
}

func (c *scripted) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *scripted) Write(p []byte) (int, error) { return c.out.Write(p) }
func (c *scripted) Close() error {
	c.once.Do(func() { close(c.ended) })
	return nil
}
func (c *scripted) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *scripted) SetDeadline(time.Time) error      { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }

// reference is net/http's server, which tells what it reads.
type reference struct {
	conns chan net.Conn
	seen  []seen // of the connection under way
}

func newReference(t testing.TB) *reference {
	r := &reference{conns: make(chan net.Conn)}
	s := &http.Server{Handler: r, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: patience}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(r) })
	t.Cleanup(func() {
		close(r.conns)
		_ = s.Close()
		serving.Wait()
	})
	return r
}

// Accept, Close and Addr make it its own listener.
func (r *reference) Accept() (net.Conn, error) {
	if c, ok := <-r.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (r *reference) Close() error   { return nil }
func (r *reference) Addr() net.Addr { return &net.TCPAddr{} }

// ServeHTTP writes a request down that can be read to its end.
func (r *reference) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.seen = append(r.seen, seenOf(req, body))
}

// reads is what net/http reads of bytes. It takes no empty lines between requests,
// which are not there to be told from others (RFC 9112 section 2.2).
func (r *reference) reads(in []byte) []seen {
	r.seen = nil
	c := &scripted{in: bytes.NewReader(withoutEmptyLines(in)), ended: make(chan struct{})}
	r.conns <- c
	<-c.ended
	return r.seen
}

// withoutEmptyLines takes the empty lines out that stand before requests, as far
// as there are requests.
func withoutEmptyLines(in []byte) (out []byte) {
	for {
		for bytes.HasPrefix(in, []byte("\r\n")) {
			in = in[2:]
		}
		var req message.Request
		n, err := http1.ParseRequest(in, &req, nil)
		if n == 0 || err != nil {
			return append(out, in...)
		}
		var body http1.Decoder
		for body.Reset(req.Body, nil); !body.Done(); {
			_, used, err := body.Next(in[n:])
			if n += used; err != nil || used == 0 {
				return append(out, in...)
			}
		}
		out, in = append(out, in[:n]...), in[n:]
	}
}

// subject is the engine between a client and a backend, over sockets that cost no
// ports.
type subject struct {
	g       *gate
	backend net.Listener
	clients net.Listener
	n       int
	answer  func() []byte // nil: the plain one

	mu    sync.Mutex
	seen  []seen
	fault string // what the backend could not read
}

func newSubject(t testing.TB) *subject {
	t.Helper()
	dir := t.TempDir()
	s := new(subject)
	var err error
	if s.backend, err = net.Listen("unix", filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if s.clients, err = net.Listen("unix", filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := s.backend.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = s.clients.Close()
		s.g.stop()
		_ = s.backend.Close()
		running.Wait()
	})
	s.g = start(t, manifest(
		"clusters: [{name: main, endpoints: [{address: 'unix:"+filepath.Join(dir, "b")+"'}], outlierDetection: {disabled: true}}]",
		"routes: [{name: all, forward: {backends: [{cluster: main}], retry: {attempts: 0}}}]",
	))
	return s
}

// serve is the backend: it writes down what can be read to its end.
func (s *subject) serve(c net.Conn) {
	defer c.Close()
	for r := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(r)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(err.Error(), "bad trailer key") {
				s.blame(err)
			}
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				s.blame(err)
			}
			return
		}
		s.mu.Lock()
		s.seen = append(s.seen, seenOf(req, body))
		s.mu.Unlock()
		if s.answer != nil {
			_, _ = c.Write(s.answer())
			return
		}
		if _, err := io.WriteString(c, plainAnswer); err != nil {
			return
		}
	}
}

func (s *subject) blame(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err.Error()
}

// says has a client say something and leave. It returns what it is answered, and
// how that ended.
func (s *subject) says(t testing.TB, in []byte) (string, error) {
	t.Helper()
	s.mu.Lock()
	s.seen, s.fault = nil, ""
	s.mu.Unlock()
	client, err := net.Dial("unix", s.clients.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	near, err := s.clients.Accept()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	s.n++
	go func() {
		defer close(served)
		s.g.engine.NewConn(near, 0, s.n%gateShards).Serve()
	}()
	_ = client.SetDeadline(time.Now().Add(patience))
	var sending sync.WaitGroup
	sending.Go(func() {
		_, _ = client.Write(in) // the end may come before all of it is sent
		_ = client.(*net.UnixConn).CloseWrite()
	})
	got, err := io.ReadAll(client)
	sending.Wait()
	<-served
	return string(got), err
}

// requestInputs are the corpora with something behind each case.
func requestInputs() (inputs []string) {
	for _, class := range slices.Concat(corpus.Requests(), corpus.Chunked) {
		for _, c := range class.Cases {
			if in := c.In; len(in) < 2000 {
				inputs = append(inputs, in+"hello"+sentinel, chunkedHead+in+sentinel)
			}
		}
	}
	for _, c := range smuggling {
		inputs = append(inputs, "POST / HTTP/1.1\r\nHost: h\r\n"+c.head+"\r\n\r\n"+smuggled)
	}
	for _, c := range malformed {
		if len(c) < 2000 {
			inputs = append(inputs, c+smuggled)
		}
	}
	return inputs
}

// fewSeeds is one input of how many begins a fuzzer: each costs it tens of
// milliseconds before it does anything new. The tests take them all.
const fewSeeds = 16

// TestEngineRequests holds the corpora to what FuzzEngineRequests holds.
func TestEngineRequests(t *testing.T) {
	ref, s := newReference(t), newSubject(t)
	for _, in := range requestInputs() {
		checkEngineRequests(t, ref, s, []byte(in))
	}
}

// FuzzEngineRequests sends the same bytes through the data plane and to net/http's
// server. What the backend reads is what that server reads, request by request;
// where it is less, the engine has said why.
func FuzzEngineRequests(f *testing.F) {
	for i, in := range requestInputs() {
		if i%fewSeeds == 0 {
			f.Add([]byte(in))
		}
	}
	ref, s := newReference(f), newSubject(f)
	f.Fuzz(func(t *testing.T, in []byte) { checkEngineRequests(t, ref, s, in) })
}

func checkEngineRequests(t *testing.T, ref *reference, s *subject, in []byte) {
	t.Helper()
	if bytes.HasPrefix(bytes.TrimLeft(in, "\r\n"), []byte("PRI")) || len(in) > 32<<10 {
		return // another protocol, or more work than news
	}
	theirs := ref.reads(in)
	fault := ""
	for try := range 3 { // a client that has left may be given up at any time
		if plain := plainForm(in); try == 1 && !bytes.Equal(plain, in) {
			theirs = ref.reads(plain)
		}
		answer, _ := s.says(t, in)
		if fault = differs(theirs, s.seen, answer); fault == noWord {
			// For us the head has no end yet, and so no verdict.
			answer, _ = s.says(t, append(bytes.Clone(in), "\r\n\r\n"...))
			fault = differs(theirs, s.seen, answer)
		}
		if s.fault != "" {
			fault = "the backend cannot read it: " + s.fault
		}
		if fault == "" {
			return
		}
	}
	t.Errorf("%q\n%s\nnet/http: %.500q\nbackend: %.500q", in, fault, theirs, s.seen)
}

// sizeLine is a chunk size with zeros before it, or white space behind, which net/http
// refuses (RFC 9112 section 7.1.1).
var sizeLine = regexp.MustCompile(`(?m)^0*([0-9A-Fa-f]+)[ \t]*(;[^\r\n]*)?\r$`)

// expectLine is an Expect whose list has empty members, which net/http does not read as
// one (RFC 9110 section 5.6.1.2).
var expectLine = regexp.MustCompile(`(?mi)^(expect:)[ \t,]*?(?:([ \t]*100-continue)[ \t,]*)?\r$`)

// plainForm writes what net/http refuses, and must be read, as it reads it.
func plainForm(in []byte) []byte {
	return expectLine.ReplaceAll(sizeLine.ReplaceAll(in, []byte("$1$2\r")), []byte("$1$2\r"))
}

const noWord = "less than net/http reads, and no word of it"

// differs says what the backend read otherwise than net/http did, or "".
func differs(theirs, ours []seen, answer string) string {
	for i := range ours {
		if i >= len(theirs) {
			return fmt.Sprintf("request %d is none for net/http", i)
		}
		if fault := otherwise(&theirs[i], &ours[i]); fault != "" {
			return fmt.Sprintf("request %d: %s", i, fault)
		}
	}
	if len(ours) == len(theirs) || len(ours) > 0 && closes(&theirs[len(ours)-1]) {
		return ""
	}
	_, why, found := strings.Cut(answer, "\r\nProxy-Status: headgate; error=")
	_, why, _ = strings.Cut(why, `details="`)
	why, _, _ = strings.Cut(why, `"`)
	switch {
	case !found:
		return noWord
	case slices.ContainsFunc(slices.Concat(engineStricter, headStricter), func(reason string) bool { return strings.HasPrefix(why, reason) }):
		return ""
	}
	return "less than net/http reads: " + why
}

// closes reports whether a request is the last of its connection. net/http does not
// see that of one in HTTP/1.0 that asks to keep it as well.
func closes(s *seen) bool {
	return strings.Contains(strings.ToLower(strings.Join(s.header["Connection"], ",")), "close")
}

// otherwise says how one request differs.
func otherwise(theirs, ours *seen) string {
	if theirs.method != ours.method || theirs.body != ours.body {
		return "method or body"
	}
	if theirs.host != ours.host && (theirs.host != "" || ours.host != "localhost") {
		return "host"
	}
	if want, ok := forwardedTarget(theirs.target); ok && want != ours.target {
		return "target, " + want
	}
	for name, values := range ours.header {
		if !ownFields[strings.ToLower(name)] && !slices.Equal(values, theirs.header[name]) {
			return "field " + name
		}
	}
	return ""
}

// forwardedTarget is what becomes of a target; ok is false where that needs more
// than a look.
func forwardedTarget(target string) (forwarded string, ok bool) {
	if !strings.HasPrefix(target, "/") {
		return target, target == "*"
	}
	path, query, has := strings.Cut(target, "?")
	normal, err := message.NormalizePath(nil, []byte(path), true)
	if has {
		query = "?" + query
	}
	return string(normal) + query, err == nil
}

// headStricter is the same list for heads.
var headStricter = []string{
	"too many empty lines before the request line", "method too long", "request target too long", "empty request target",
	"fragment in the request target", "backslash in the path of the request target", "byte outside of ASCII in the request target",
	"request target that is neither a path nor an http URL", "request target * of a method other than OPTIONS",
	"request target without a host", "host of the request target: ", "CONNECT target", "HTTP version not supported",
	"LF without CR in the request line", "CR without LF after the HTTP version", "no Host field", "empty Host field", "Host field: ",
	"folded field line", "LF without CR in a field value", "LF without CR in place of a field line", "CR without LF in a field value",
	"control byte in a field value", "NUL in a field value", "too many field lines", "request head too large", "the request head is too large",
	"white space after a field name", "both Transfer-Encoding and Content-Length", "Transfer-Encoding in HTTP/1.0",
	"more than one Content-Length field", "Content-Length that is not a number", "Content-Length too large", "empty Content-Length field",
	"content in a CONNECT request", "Expect field other than 100-continue", "more than one Transfer-Encoding field",
	"transfer coding other than chunked", "Transfer-Encoding that is not chunked, once", "malformed Transfer-Encoding field",
}

// An answerInput is bytes of a backend, and the method that they answer.
type answerInput struct {
	method, in string
}

func answerInputs() (inputs []answerInput) {
	for _, class := range corpus.Responses {
		for _, c := range class.Cases {
			method, in, ok := strings.Cut(c.In, "|")
			if !ok {
				method, in = "GET", c.In
			}
			if len(in) < 2000 && method != "CONNECT" {
				inputs = append(inputs, answerInput{method, in + "5\r\nhello\r\n0\r\n\r\n"}, answerInput{method, in + "hello, world"})
			}
		}
	}
	return inputs
}

// TestEngineAnswers holds the corpus to what FuzzEngineAnswers holds.
func TestEngineAnswers(t *testing.T) {
	s := newSubject(t)
	for _, c := range answerInputs() {
		checkEngineAnswers(t, s, c.method, []byte(c.in))
	}
}

// FuzzEngineAnswers has a backend answer with any bytes. A client of net/http
// reads from the data plane what it would have read from the backend, or an answer
// of ours, or sees that it was cut.
func FuzzEngineAnswers(f *testing.F) {
	for i, c := range answerInputs() {
		if i%fewSeeds == 0 {
			f.Add([]byte(c.in), c.method == "HEAD")
		}
	}
	s := newSubject(f)
	f.Fuzz(func(t *testing.T, in []byte, head bool) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		checkEngineAnswers(t, s, method, in)
	})
}

func checkEngineAnswers(t *testing.T, s *subject, method string, in []byte) {
	t.Helper()
	if len(in) > 32<<10 {
		return
	}
	s.answer = func() []byte { return in }
	fault := ""
	for range 3 {
		got, err := s.says(t, []byte(method+" / HTTP/1.1\r\nHost: h\r\n\r\n"))
		if fault = answersDiffer(method, string(in), got, err); fault == "" {
			return
		}
	}
	t.Errorf("%s %q\n%s", method, in, fault)
}

// answersDiffer says how what a client gets differs from what a backend said, or "".
func answersDiffer(method, said, got string, end error) string {
	ours, ourBody, ourErr := finalAnswer(method, got)
	switch {
	case ours == nil && end != nil, got == "":
		return "" // cut before its head
	case ours == nil:
		return fmt.Sprintf("what the client gets is no answer: %v, %.300q", ourErr, got)
	case ours.Header.Get("Proxy-Status") != "" && ours.StatusCode == http.StatusBadGateway:
		return ""
	}
	theirs, theirBody, theirErr := finalAnswer(method, corpus.PlainNames(said))
	switch {
	case theirs == nil && strings.Contains(theirErr.Error(), "bad Content-Length"):
		return "" // equal numbers in a list, or in several forms (RFC 9112 section 6.3)
	case theirs == nil:
		return fmt.Sprintf("net/http takes no such answer (%v); the client gets %.300q", theirErr, got)
	case theirs.StatusCode != ours.StatusCode:
		return fmt.Sprintf("status %d, and the client gets %d", theirs.StatusCode, ours.StatusCode)
	case (ourErr != nil || end != nil) && strings.HasPrefix(theirBody, ourBody):
		return "" // cut
	case theirErr != nil:
		return fmt.Sprintf("net/http cannot read the body (%v); the client gets %.300q", theirErr, got)
	case ourBody != theirBody:
		return fmt.Sprintf("body %.300q, and the client gets %.300q", theirBody, ourBody)
	}
	return ""
}

// finalAnswer is the first answer of bytes that is not interim, and its body.
func finalAnswer(method, raw string) (*http.Response, string, error) {
	for r := bufio.NewReader(strings.NewReader(raw)); ; {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return nil, "", err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			body, err := io.ReadAll(resp.Body)
			return resp, string(body), err
		}
	}
}
