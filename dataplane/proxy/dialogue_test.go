package proxy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/telemetry"
)

// A dialogue is a file in testdata: what is said over the wire, in order. A line
// "-- who does --" begins a step and the lines below it are its bytes.
//
//	-- snapshot --          clusters and routes in YAML; left out: all to one cluster
//	-- client connects --   a new connection, which is the current one; at the start there is one
//	-- client sends --      bytes
//	-- backend accepts --   waits for the next connection, which is the current one
//	-- backend sees --      exactly these bytes come; accepts if there is no connection
//	-- client ends --       the client sees the end of the stream; "breaks": a reset; "gone": either
//	-- client closes --     also "resets", and "half-closes"
//	-- client pauses --     for longer than the timeouts of the dialogue
//	-- other sees --        the second backend, {{other}}
//	-- second sends --      a second client beside the first
//	-- nobody upstream --   no connection was made
//	-- recorded --          what telemetry has, a line an exchange
//	-- tunnel stays --      at the end of the dialogue, and is cut
//	-- apply --             another snapshot goes live
//
// {{forwarded}} stands for the X-Forwarded lines of a request for the host h.
// A line of bytes ends with CRLF unless it ends with a backslash. Escapes are
// those of Go. Dates of the proxy are shown as "Sun, 06 Nov 1994 08:49:37 GMT".
// Every dialogue is run twice: with each step sent at once, and a byte at a
// time; one that begins with "# whole" only at once.
type dialogue struct {
	t       *testing.T
	split   int
	gate    *gate
	backend *backend
	other   *backend
	peers   map[string]*peer // the current connections by who holds them
	dead    string
	tunnel  bool // one is left open at the end
}

const forwarded = "X-Forwarded-For: 127.0.0.1\nX-Forwarded-Proto: http\nX-Forwarded-Host: h"

type step struct {
	line int
	verb string
	text string
}

func TestDialogues(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no dialogues", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps := parseDialogue(string(data))
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) { runDialogue(t, steps, 0) })
		if !strings.HasPrefix(string(data), "# whole") {
			t.Run(name+"/bytewise", func(t *testing.T) { runDialogue(t, steps, 1) })
		}
	}
}

func parseDialogue(text string) []step {
	var steps []step
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if verb, ok := strings.CutPrefix(line, "-- "); ok {
			steps = append(steps, step{line: i + 1, verb: strings.TrimSuffix(verb, " --")})
		} else if len(steps) > 0 {
			last := &steps[len(steps)-1]
			last.text += line + "\n"
		}
	}
	return steps
}

func runDialogue(t *testing.T, steps []step, split int) {
	t.Parallel()
	d := &dialogue{t: t, split: split, backend: newBackend(t), other: newBackend(t), peers: map[string]*peer{}, dead: refusing(t)}
	first := single(d.backend.address())
	if steps[0].verb == "snapshot" {
		first = d.manifest(steps[0].text)
		steps = steps[1:]
	}
	d.gate = start(t, first)
	d.connect()
	for _, s := range steps {
		d.run(s)
		if t.Failed() {
			t.Fatalf("in the step of line %d: %s", s.line, s.verb)
		}
	}
	d.end()
}

func (d *dialogue) manifest(text string) string {
	text = d.expand(text)
	if strings.Contains(text, "listeners:") {
		return "version: test\n" + text
	}
	if !strings.Contains(text, "clusters:") {
		text = "clusters: [{name: main, endpoints: [{address: '" + d.backend.address() + "'}]}]\n" + text
	}
	if !strings.Contains(text, "routes:") {
		text += "routes: [{name: all, forward: {backends: [{cluster: main}]}}]\n"
	}
	return manifest(text)
}

func (d *dialogue) expand(text string) string {
	return strings.NewReplacer("{{forwarded}}", forwarded, "{{backend}}", d.backend.address(), "{{other}}", d.other.address(), "{{dead}}", d.dead).Replace(text)
}

func (d *dialogue) connect() { d.peers["client"] = d.dress(d.gate.dial()) }

func (d *dialogue) dress(p *peer) *peer {
	p.t, p.split = d.t, d.split
	return p
}

// bytes turns the lines of a step into what goes over the wire.
func (d *dialogue) bytes(text string) string {
	var b strings.Builder
	for line := range strings.Lines(d.expand(text)) {
		line = strings.TrimSuffix(line, "\n")
		open := strings.HasSuffix(line, `\`) && !strings.HasSuffix(line, `\\`)
		line = strings.TrimSuffix(line, `\`)
		raw, err := strconv.Unquote(`"` + strings.ReplaceAll(line, `"`, `\"`) + `"`)
		if err != nil {
			d.t.Fatalf("%q: %v", line, err)
		}
		b.WriteString(raw)
		if !open {
			b.WriteString("\r\n")
		}
	}
	return b.String()
}

func (d *dialogue) run(s step) {
	d.t.Helper()
	who, verb, _ := strings.Cut(s.verb, " ")
	switch s.verb {
	case "client connects":
		d.connect()
		return
	case "nobody upstream":
		d.backend.untouched()
		d.other.untouched()
		return
	case "recorded":
		d.recorded(strings.Split(strings.TrimSpace(s.text), "\n"))
		return
	case "tunnel stays":
		d.tunnel = true
		return
	case "apply":
		d.gate.apply(d.manifest(s.text))
		return
	}
	d.peerDoes(d.peer(who, verb), verb, d.bytes(s.text))
}

// peer is the current connection of somebody.
func (d *dialogue) peer(who, verb string) *peer {
	d.t.Helper()
	server := map[string]*backend{"backend": d.backend, "other": d.other}[who]
	if server != nil && (d.peers[who] == nil || verb == "accepts") {
		d.peers[who] = d.dress(server.accept())
	}
	if who == "second" && d.peers[who] == nil {
		d.peers[who] = d.dress(d.gate.dial())
	}
	if d.peers[who] == nil {
		d.t.Fatalf("nobody is called %q", who)
	}
	return d.peers[who]
}

func (d *dialogue) peerDoes(p *peer, verb, text string) {
	d.t.Helper()
	switch verb {
	case "accepts":
	case "sends", "answers":
		p.send(text)
	case "sees":
		p.sees(text)
	case "ends":
		p.ends()
	case "breaks":
		p.breaks()
	case "gone":
		p.gone()
	case "closes":
		p.close()
		d.forget(p)
	case "resets":
		p.reset()
		d.forget(p)
	case "pauses":
		time.Sleep(400 * time.Millisecond)
	case "half-closes":
		p.closeWrite()
	default:
		d.t.Fatalf("nobody can %q", verb)
	}
}

// forget makes the next step of a backend accept again.
func (d *dialogue) forget(p *peer) {
	for who, q := range d.peers {
		if q == p && who != "client" {
			delete(d.peers, who)
		}
	}
}

// recorded compares what telemetry says.
func (d *dialogue) recorded(want []string) {
	d.t.Helper()
	found := d.gate.recent(len(want))
	var got []string
	for i := range found {
		got = append(got, recordLine(&found[i]))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		d.t.Fatalf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func recordLine(r *telemetry.Recent) string {
	line := fmt.Sprintf("%s %s%s %d in=%d out=%d", r.Method, r.Host, r.Path, r.Status, r.BytesIn, r.BytesOut)
	if r.Attempts > 0 {
		line += fmt.Sprintf(" attempts=%d", r.Attempts)
	}
	if r.Reason != "" {
		line += " " + r.Reason
	}
	if r.NotRetried != "" {
		line += " not retried: " + r.NotRetried
	}
	if r.Injected != "" {
		line += " injected: " + r.Injected
	}
	return line
}

// end checks that nobody has anything left to read.
func (d *dialogue) end() {
	d.t.Helper()
	client := d.peers["client"]
	if client.conn.CloseWrite() == nil && !d.tunnel {
		client.gone()
	}
	d.gate.stop()
	client.gone()
	for who, p := range d.peers {
		if who != "client" {
			p.gone()
		}
	}
	d.backend.untouched()
	d.other.untouched()
}
