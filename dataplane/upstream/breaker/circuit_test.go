package breaker

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// endpoint is a circuit with what its owner keeps: the time, the run of
// failures, and the attempts under way by name.
type endpoint struct {
	Circuit
	config Config
	now    int64
	run    int
	begun  map[string]Ticket
}

func (e *endpoint) text(changed bool) string {
	text := e.State().String()
	if e.State() != Closed {
		text += " until " + time.Duration(e.Until()).String()
	}
	if changed {
		text += ", changed"
	}
	return text
}

func (e *endpoint) fail(t Ticket) bool {
	e.run++
	return e.Failed(e.now, t, e.run, e.config)
}

func (e *endpoint) succeed(t Ticket) bool {
	e.run = 0
	return e.Succeeded(t, e.config)
}

func (e *endpoint) do(command string, args []string) string {
	switch command {
	case "new":
		*e = endpoint{begun: map[string]Ticket{}}
		e.config.ConsecutiveFailures, _ = strconv.Atoi(args[0])
		e.config.OpenFor, _ = time.ParseDuration(args[1])
		e.config.HalfOpenRequests, _ = strconv.Atoi(args[2])
	case "fail", "succeed":
		t, _ := e.Admit(e.config)
		if command == "fail" {
			return e.text(e.fail(t))
		}
		return e.text(e.succeed(t))
	case "at":
		d, _ := time.ParseDuration(args[0])
		e.now = int64(d)
		return e.text(e.Tick(e.now, e.config))
	case "begin":
		t, ok := e.Admit(e.config)
		e.begun[args[0]] = t
		return map[bool]string{false: "refused", true: map[bool]string{false: "admitted", true: "trial"}[t.Trial()]}[ok]
	case "end":
		return e.end(e.begun[args[0]], args[1])
	case "probe":
		if args[0] == "ok" {
			return e.text(e.ProbeSucceeded())
		}
		return e.text(e.ProbeFailed(e.now, e.config))
	case "close":
		return e.text(e.Close())
	}
	return e.text(false)
}

func (e *endpoint) end(t Ticket, outcome string) string {
	switch outcome {
	case "ok":
		return e.text(e.succeed(t))
	case "ignored":
		e.Ignored(t)
		return e.text(false)
	}
	return e.text(e.fail(t))
}

func TestCircuit(t *testing.T) {
	f, err := os.Open("testdata/circuit.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var e endpoint
	got := ""
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case line == "" || line[0] == '#':
		case line[0] != ' ':
			words := strings.Fields(line)
			got = e.do(words[0], words[1:])
		case strings.TrimSpace(line) != got:
			t.Fatalf("%s:%d: got %q, want %q", f.Name(), n, got, strings.TrimSpace(line))
		}
	}
}

// Whatever happens, no more trials are under way than may be, an open circuit
// lets nothing through and is tried again in time, and no probe closes what a
// request has opened.
func TestCircuitKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := endpoint{config: Config{
			ConsecutiveFailures: rapid.IntRange(1, 4).Draw(t, "failures"),
			OpenFor:             10,
			HalfOpenRequests:    rapid.IntRange(1, 3).Draw(t, "trials"),
		}}
		var begun []Ticket
		byTraffic := false
		take := func(t *rapid.T) Ticket {
			if len(begun) == 0 {
				t.Skip("nothing under way")
			}
			i := rapid.IntRange(0, len(begun)-1).Draw(t, "attempt")
			ticket := begun[i]
			begun = append(begun[:i], begun[i+1:]...)
			return ticket
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				ticket, ok := e.Admit(e.config)
				if ok && e.State() == Open {
					t.Fatal("an open circuit let a request through")
				}
				if ok {
					begun = append(begun, ticket)
				}
			},
			"succeed": func(t *rapid.T) { e.succeed(take(t)) },
			"ignore":  func(t *rapid.T) { e.Ignored(take(t)) },
			"fail": func(t *rapid.T) {
				if e.fail(take(t)) {
					byTraffic = true
				}
			},
			"probe fails": func(*rapid.T) { e.ProbeFailed(e.now, e.config) },
			"probe succeeds": func(t *rapid.T) {
				if e.ProbeSucceeded() && byTraffic {
					t.Fatal("a probe closed what traffic opened")
				}
			},
			"wait": func(t *rapid.T) {
				e.now += int64(rapid.IntRange(1, 12).Draw(t, "time"))
				e.Tick(e.now, e.config)
				if e.State() == Open && e.Until() <= e.now {
					t.Fatal("not tried again")
				}
			},
			"": func(t *rapid.T) {
				trials := 0
				for _, ticket := range begun {
					if e.tries(ticket) {
						trials++
					}
				}
				if most := e.config.HalfOpenRequests; trials > most || trials+e.passed != e.given && e.State() == HalfOpen {
					t.Fatalf("%d trials under way, %d passed, %d given, of %d", trials, e.passed, e.given, most)
				}
				if e.State() == Closed {
					byTraffic, e.run = false, min(e.run, e.config.ConsecutiveFailures)
				}
			},
		})
	})
}

func TestNames(t *testing.T) {
	if s := fmt.Sprint(Closed, Open, HalfOpen, State(9)); s != "closed open half-open invalid" {
		t.Error(s)
	}
}
