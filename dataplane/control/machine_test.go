package control

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var rewrite = flag.Bool("rewrite", false, "write what the machine scripts print into their files")

// TestMachineScripts runs the scripts in testdata/machine. A script is prose
// (lines with #), commands, a line of dashes, and what the commands print:
//
//	fence TERM                    a writer shows its term
//	propose ID DIGEST [term=N] [base=DIGEST] [shrink] [allow]
//	seal                          the lane wants to persist
//	finish committed|aborted      the lane ends
//	again                         who waited is admitted
func TestMachineScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/machine/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	script := machineScript{}
	var got []string
	for block := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		got = append(got, commands+"\n----\n"+strings.Join(script.run(commands), "\n"))
	}
	text := strings.Join(got, "\n\n") + "\n"
	if *rewrite {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(data), text); diff != "" && !*rewrite {
		t.Errorf("the machine says something else (-script +machine):\n%s", diff)
	}
}

type machineScript struct {
	m    machine
	next *proposal
}

func (s *machineScript) run(commands string) (out []string) {
	for line := range strings.SplitSeq(commands, "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, s.do(strings.Fields(line)))
		}
	}
	return out
}

func (s *machineScript) do(words []string) string {
	switch words[0] {
	case "fence":
		term, _ := strconv.ParseUint(words[1], 10, 64)
		if r := s.m.fence(term); r != nil {
			return "refused: " + r.Text
		}
		return fmt.Sprintf("ok, the highest term is %d", s.m.term)
	case "propose":
		return s.say(s.m.admit(parseProposal(words[1:])))
	case "seal":
		if r := s.m.seal(); r != nil {
			return "refused: " + r.Text
		}
		return "sealed"
	case "finish":
		s.next = s.m.finish(words[1] == "committed")
		if s.next == nil {
			return fmt.Sprintf("active %q, the lane is free", s.m.active)
		}
		return fmt.Sprintf("active %q, next is %d", s.m.active, s.next.id)
	case "again":
		return s.say(s.m.admit(*s.next))
	}
	return "unknown command " + words[0]
}

func parseProposal(words []string) proposal {
	id, _ := strconv.ParseUint(words[0], 10, 64)
	p := proposal{id: ticket(id), digest: words[1]}
	for _, w := range words[2:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "term":
			p.term, _ = strconv.ParseUint(value, 10, 64)
		case "base":
			p.base = value
		case "shrink":
			p.shrink = "drops 15 of 20 routes"
		case "allow":
			p.allowShrink = true
		}
	}
	return p
}

func (s *machineScript) say(d decision) string {
	text := [...]string{"run", "wait", "join", "unchanged", "refused"}[d.verdict]
	if d.verdict == verdictJoin {
		text += fmt.Sprintf(" %d", d.join)
	}
	if d.refusal != nil {
		text += ": " + d.refusal.Text
	}
	if len(d.superseded) > 0 {
		text += fmt.Sprintf(", superseded %v", d.superseded)
	}
	return text
}

// TestMachineProperty drives the machine with any order of operations: the last
// proposal that was admitted and not aborted is the one that becomes active, no
// proposal is left without an end, and none has two.
func TestMachineProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &machineDriver{t: t, open: map[ticket]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"propose": d.propose, "seal": d.seal, "finish": d.finish, "": d.check,
		})
		for d.m.lane != nil {
			d.finish(t)
		}
		if len(d.open) != 0 {
			t.Fatalf("without an end: %v", d.open)
		}
	})
}

type machineDriver struct {
	t      *rapid.T
	m      machine
	ids    ticket
	open   map[ticket]bool // admitted, and neither ended nor superseded
	active string
}

func (d *machineDriver) propose(t *rapid.T) {
	d.ids++
	p := proposal{
		id:     d.ids,
		digest: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "digest"),
		base:   rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "base"),
		term:   rapid.Uint64Range(0, 2).Draw(t, "term"),
	}
	highest := d.m.term
	if r := d.m.fence(p.term); (r != nil) != (p.term < highest) {
		t.Fatalf("term %d against %d: %v", p.term, highest, r)
	} else if r != nil {
		return
	}
	d.take(p)
}

func (d *machineDriver) take(p proposal) {
	got := d.m.admit(p)
	for _, id := range got.superseded {
		d.end(id)
	}
	switch got.verdict {
	case verdictRun, verdictWait:
		d.open[p.id] = true
	case verdictUnchanged:
		if p.digest != d.active || len(d.open) != 0 {
			d.t.Fatalf("%v is unchanged, active is %q, open %v", p, d.active, d.open)
		}
	case verdictJoin:
		if !d.open[got.join] {
			d.t.Fatalf("%v joined %d, which has ended", p, got.join)
		}
	case verdictRefused:
		if p.term >= d.m.term && (p.base == "" || p.base == d.active) {
			d.t.Fatalf("%v refused: %v", p, got.refusal)
		}
	}
}

func (d *machineDriver) end(id ticket) {
	if !d.open[id] {
		d.t.Fatalf("%d ended twice", id)
	}
	delete(d.open, id)
}

func (d *machineDriver) seal(*rapid.T) {
	if d.m.lane != nil {
		d.m.seal()
	}
}

func (d *machineDriver) finish(t *rapid.T) {
	if d.m.lane == nil {
		return
	}
	lane, wanted := *d.m.lane, d.m.stage != laneSuperseded
	committed := wanted && d.m.seal() == nil && rapid.Bool().Draw(t, "committed")
	if committed {
		d.active = lane.digest
	}
	if wanted {
		d.end(lane.id)
	}
	if next := d.m.finish(committed); next != nil {
		d.end(next.id)
		d.take(*next)
	}
}

func (d *machineDriver) check(t *rapid.T) {
	if d.m.active != d.active {
		t.Fatalf("active is %q, last committed %q", d.m.active, d.active)
	}
	if len(d.open) > 2 {
		t.Fatalf("more than two at once: %v", d.open)
	}
}
