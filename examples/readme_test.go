package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tour is an example whose README has been followed: its programs run, by the
// first two words of their commands, and its commands gave what it says.
type tour struct {
	*site
	running map[string]*process
}

// follow follows the README of an example: it starts each line of the sh block,
// and runs the commands of the console blocks.
func follow(t *testing.T, example string, env ...string) *tour {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(example, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	r := &tour{site: newSite(t, example, env...), running: map[string]*process{}}
	for _, line := range lines(blocks(string(text), "sh")...) {
		words := strings.Fields(line)
		r.running[words[0]] = r.start(line)
	}
	for _, block := range blocks(string(text), "console") {
		for _, step := range steps(block) {
			r.check(step)
		}
	}
	return r
}

// fenced is a block of code in Markdown.
var fenced = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// blocks are the blocks of one language.
func blocks(text, language string) []string {
	var list []string
	for _, found := range fenced.FindAllStringSubmatch(text, -1) {
		if found[1] == language {
			list = append(list, found[2])
		}
	}
	return list
}

func lines(blocks ...string) []string {
	return strings.FieldsFunc(strings.Join(blocks, "\n"), func(r rune) bool { return r == '\n' })
}

// step is a command and what it is said to print.
type step struct{ command, output string }

// steps parts a console block at its prompts.
func steps(block string) []step {
	var list []step
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			list = append(list, step{command: strings.TrimSuffix(command, "\n")})
			continue
		}
		list[len(list)-1].output += line
	}
	return list
}

// check runs a step. In its output "..." stands for any text, and a line of
// nothing else for any lines.
func (r *tour) check(want step) {
	r.t.Helper()
	got, err := r.run(want.command)
	if !like(want.output).MatchString(got) {
		r.t.Fatalf("$ %s\n%s(%v)\nbut the README says\n%s", want.command, got, err, want.output)
	}
}

// like matches texts that an output with "..." stands for.
func like(output string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(output)
	pattern = regexp.MustCompile(`(?m)^\\\.\\\.\\\.\n`).ReplaceAllLiteralString(pattern, `(?:.*\n)*?`)
	pattern = strings.ReplaceAll(pattern, `\.\.\.`, `.*`)
	return regexp.MustCompile(`\A` + pattern + `\z`)
}
