package health

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// dialogue runs a script: a command at the start of a line, what it prints
// indented below.
func dialogue(t *testing.T, file string, run func(command string, args []string) string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, asked := "", false
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case line == "" || line[0] == '#':
		case line[0] != ' ':
			words := strings.Fields(line)
			got, asked = run(words[0], words[1:]), true
		case !asked || strings.TrimSpace(line) != got:
			t.Fatalf("%s:%d: got %q, want %q", file, n, got, strings.TrimSpace(line))
		}
	}
}

func TestCheck(t *testing.T) {
	var c Check
	var limits Thresholds
	dialogue(t, "testdata/check.txt", func(command string, args []string) string {
		if command == "new" {
			c = Check{}
			_, _ = fmt.Sscan(strings.Join(args, " "), &limits.Healthy, &limits.Unhealthy)
			return c.State().String()
		}
		text := ""
		if c.Observe(command == "ok", limits) {
			text = ", changed"
			if c.Run() > 1 {
				text += fmt.Sprintf(", %d in a row", c.Run())
			}
		}
		return c.State().String() + text
	})
}

func TestEjection(t *testing.T) {
	var e Ejection
	dialogue(t, "testdata/ejection.txt", func(command string, args []string) string {
		times := make([]time.Duration, len(args))
		for i, a := range args {
			times[i], _ = time.ParseDuration(a)
		}
		switch command {
		case "new":
			e = Ejection{}
		case "end":
			e.End(int64(times[0]))
		case "eject":
			e.Eject(int64(times[0]), times[1])
		}
		if !e.Active() {
			return "in service"
		}
		verb := "count"
		if e.Times() == 1 {
			verb = "counts"
		}
		return fmt.Sprintf("until %v, %d %s", time.Duration(e.Until()), e.Times(), verb)
	})
}
