package route

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/dataplane/message"
)

var update = flag.Bool("update", false, "write what the scripts print into testdata")

// TestScripts runs testdata/*.txt. A script is blocks divided by blank lines.
// A block is a command, its input and, after "----", what it prints.
//
//	routes     the table, one route a line, its matches indented below it;
//	           prints the faults, and the matches that can never win
//	match      one request a line; prints what wins
//	explain    one request a line; prints all candidates
//
// Conditions and requests are written as in newMatch and newRequest.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s script
	var got []string
	for block := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		input, _, isCommand := strings.Cut(block, "\n----")
		if !isCommand {
			got = append(got, block)
			continue
		}
		got = append(got, input+"\n----\n"+strings.TrimRight(s.run(t, input), "\n"))
	}
	text := strings.Join(got, "\n\n") + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(raw), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

type script struct {
	routes []Route
	table  *Table
}

func (s *script) run(t *testing.T, input string) string {
	command, rest, _ := strings.Cut(input, "\n")
	lines := strings.Split(rest, "\n")
	switch command {
	case "routes":
		return s.compile(t, lines)
	case "match":
		return s.each(t, lines, s.match)
	case "explain":
		return s.each(t, lines, s.explain)
	}
	t.Fatalf("no such command: %q", command)
	return ""
}

func (s *script) compile(t *testing.T, lines []string) string {
	s.routes = newRoutes(t, lines)
	var faults []Error
	s.table, faults = New(s.routes, nil)
	var out strings.Builder
	for _, e := range faults {
		fmt.Fprintln(&out, e)
	}
	for _, sh := range s.table.Shadowed() {
		fmt.Fprintf(&out, "%s is unreachable: see %s\n", s.name(sh.Route, sh.Match), s.routes[sh.By].Name)
	}
	if out.Len() == 0 {
		return "ok"
	}
	return out.String()
}

func (s *script) each(t *testing.T, lines []string, do func(*message.Request, []byte, netip.Addr) string) string {
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(do(newRequest(t, line)))
	}
	return out.String()
}

func (s *script) match(req *message.Request, path []byte, source netip.Addr) string {
	result, ok := s.table.Match(req, path, source)
	if !ok {
		return "no match\n"
	}
	out := s.name(result.Route, result.Match)
	if result.PrefixLen > 0 {
		out += fmt.Sprintf(" covers %s, leaves %q", path[:result.PrefixLen], path[result.PrefixLen:])
	}
	return out + "\n"
}

func (s *script) explain(req *message.Request, path []byte, source netip.Addr) string {
	var out strings.Builder
	e := s.table.Explain(req, path, source)
	for _, c := range e.Candidates {
		fmt.Fprintf(&out, "%-8s %-12s %s\n", c.Verdict, s.name(c.Route, c.Match), c.Reason)
	}
	if !e.Found {
		fmt.Fprintln(&out, "no match")
	}
	if e.LeftOut+e.OtherHosts > 0 {
		fmt.Fprintf(&out, "left out: %d, and %d of other hosts\n", e.LeftOut, e.OtherHosts)
	}
	return out.String()
}

// name is the route and, if it has several, the match.
func (s *script) name(route, match int) string {
	if len(s.routes[route].Matches) < 2 {
		return s.routes[route].Name
	}
	return fmt.Sprintf("%s[%d]", s.routes[route].Name, match)
}

// newRoutes reads routes such as
//
//	users host=a.example.com,*.example.com priority=5
//	  prefix=/v1 methods=GET,HEAD
//	  exact=/home
func newRoutes(t *testing.T, lines []string) []Route {
	var routes []Route
	for _, line := range lines {
		if strings.HasPrefix(line, " ") {
			last := &routes[len(routes)-1]
			last.Matches = append(last.Matches, newMatch(t, line))
			continue
		}
		words := strings.Fields(line)
		r := Route{Name: words[0]}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "host":
				r.Hosts = strings.Split(value, ",")
			case "priority":
				r.Priority = number(t, value)
			default:
				t.Fatalf("no such setting: %q", word)
			}
		}
		routes = append(routes, r)
	}
	return routes
}

// newMatch reads conditions such as
//
//	prefix=/v1 methods=GET,HEAD header:x-canary=1 header:x-id~^[0-9]+$ query:debug source=10.0.0.0/8
func newMatch(t *testing.T, line string) Match {
	var m Match
	for word := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(word, "=")
		switch {
		case key == "exact":
			m.Path = Path{PathExact, value}
		case key == "prefix":
			m.Path = Path{PathPrefix, value}
		case key == "regex":
			m.Path = Path{PathRegex, value}
		case key == "methods":
			m.Methods = strings.Split(value, ",")
		case key == "source":
			for p := range strings.SplitSeq(value, ",") {
				prefix, _ := netip.ParsePrefix(p)
				m.Sources = append(m.Sources, prefix)
			}
		case strings.HasPrefix(word, "header:"):
			m.Headers = append(m.Headers, newValue(word[len("header:"):]))
		case strings.HasPrefix(word, "query:"):
			m.Query = append(m.Query, newValue(word[len("query:"):]))
		case word != "any":
			t.Fatalf("no such condition: %q", word)
		}
	}
	return m
}

// newValue reads name=exact, where + stands for a space, name~regex, or a bare
// name.
func newValue(s string) Value {
	i := strings.IndexAny(s, "=~")
	switch {
	case i < 0:
		return Value{Name: s, Present: true}
	case s[i] == '=':
		return Value{Name: s[:i], Exact: strings.ReplaceAll(s[i+1:], "+", " ")}
	}
	return Value{Name: s[:i], Regex: s[i+1:]}
}

// newRequest reads a request such as
//
//	GET api.example.com/v1/x?debug=1 x-canary:1 from=10.0.0.1
//
// where + in a header stands for a space.
func newRequest(t *testing.T, line string) (*message.Request, []byte, netip.Addr) {
	words := strings.Fields(line)
	req := &message.Request{Method: methodIDs[words[0]], MethodName: []byte(words[0])}
	if req.Method == message.MethodNone {
		req.Method = message.MethodOther
	}
	target, query, hasQuery := strings.Cut(words[1], "?")
	req.Query, req.HasQuery = []byte(query), hasQuery
	host, path := target, ""
	if i := strings.IndexAny(target, "/*"); i >= 0 {
		host, path = target[:i], target[i:]
	}
	req.Host = []byte(host)
	req.Path = []byte(path)
	var source netip.Addr
	for _, word := range words[2:] {
		if addr, ok := strings.CutPrefix(word, "from="); ok {
			source = netip.MustParseAddr(addr)
			continue
		}
		name, value, _ := strings.Cut(word, ":")
		req.Fields.Add([]byte(name), []byte(strings.ReplaceAll(value, "+", " ")))
	}
	return req, req.Path, source
}

func number(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
